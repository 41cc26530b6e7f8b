{{- /* The name of a part: RELEASE-part. Call: (list $ "watch") */ -}}
{{- define "part" -}}
{{- printf "%s-%s" (index . 0).Release.Name (index . 1) | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "labels" -}}
app.kubernetes.io/name: group-coordinator
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "image" -}}
{{- printf "%s:%s" (index . 1).repository ((index . 1).tag | default (index . 0).Chart.AppVersion) | quote -}}
{{- end -}}

{{- /* The environment of all: what is no secret. Call: (dict "root" $ "port" 9464) */ -}}
{{- define "environment" -}}
- {name: GROUP_COORDINATOR_BOOTSTRAP_SERVERS, value: {{ .root.Values.kafka.bootstrapServers | quote }}}
- {name: GROUP_COORDINATOR_METRICS_PORT, value: {{ .port | quote }}}
- {name: GROUP_COORDINATOR_METRICS_HOST, value: "0.0.0.0"}
{{- end -}}

{{- define "probes" -}}
{{- $port := index . 0 -}}
startupProbe:
  httpGet: {path: /health/live, port: {{ $port }}}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /health/live, port: {{ $port }}}
  periodSeconds: 10
  failureThreshold: 3
{{- end -}}

{{- define "container-security" -}}
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "pod-security" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "mounts" -}}
- {name: kafka, mountPath: /etc/group-coordinator, readOnly: true}
{{- if .Values.kafka.caSecret }}
- {name: kafka-ca, mountPath: /etc/kafka-ca, readOnly: true}
{{- end }}
{{- end -}}

{{- define "volumes" -}}
- name: kafka
  secret: {secretName: {{ .Values.kafka.existingSecret | default (include "part" (list . "kafka")) }}}
{{- if .Values.kafka.caSecret }}
- name: kafka-ca
  secret: {secretName: {{ .Values.kafka.caSecret }}}
{{- end }}
{{- end -}}

{{- define "claim" -}}
accessModes: [{{ index . 1 }}]
{{- with (index . 0).className }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests: {storage: {{ (index . 0).size }}}
{{- end -}}

{{- define "coordinator-environment" -}}
- {name: GROUP_COORDINATOR_SHARDS, value: {{ .Values.coordinator.shards | quote }}}
# Pod 0 runs shard 0, and so on.
- name: GROUP_COORDINATOR_SHARD
  valueFrom:
    fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}
- {name: GROUP_COORDINATOR_CHECKPOINT, value: /data/checkpoint}
- {name: GROUP_COORDINATOR_LOG_FORMAT, value: json}
{{- if .Values.coordinator.responder }}
# A responder answers, so nobody waits for a batch, and rarer ones cost less.
- {name: GROUP_COORDINATOR_RESPONDERS, value: "true"}
{{- range $setting, $value := dict "trigger_interval_ms" "2000" "spark_tier4_factor" "10" }}
{{- if not (hasKey $.Values.coordinator.settings $setting) }}
- {name: GROUP_COORDINATOR_{{ upper $setting }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- range $setting, $value := .Values.coordinator.settings }}
- {name: GROUP_COORDINATOR_{{ upper $setting }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end -}}
