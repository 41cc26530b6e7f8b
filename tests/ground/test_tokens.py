"""Tokens to log in with: of an OIDC server, of a file, signed for Amazon MSK; and what is said when there is none."""

from __future__ import annotations

import re
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from confluent_kafka import Consumer
from kafka.net.sasl.oauth import AbstractTokenProvider

from group_coordinator.ground.kafka_topics.clients import new_consumer
from group_coordinator.ground.settings.kafka_properties import librdkafka_properties, properties_problems
from group_coordinator.ground.tokens import TokenError, token_source
from group_coordinator.watching.watch.python_client import python_properties
from tests.ground.oidc_server import CLIENT_ID, SECRET, OidcServer, oidc_server, token_of

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.fixture(scope="module")
def server() -> Iterator[OidcServer]:
    with oidc_server() as started:
        yield started


def properties(endpoint: str, options: str = "") -> dict[str, str]:
    kafka = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        "sasl.jaas.config": f"{MODULE} {options};",
    }
    assert properties_problems(kafka) == []
    return librdkafka_properties("127.0.0.1:1", kafka)


def login(secret: str) -> str:
    return f'clientId="{CLIENT_ID}" clientSecret="{secret}"'


def test_an_oidc_server_gives_a_token_for_the_scope(server: OidcServer) -> None:
    new_token = token_source(properties(server.token_endpoint, f'{login(SECRET)} scope="kafka"'))
    assert new_token is not None
    token = new_token()
    assert token.text.split(".")[0] == token_of(CLIENT_ID).split(".")[0]
    assert 590 < token.expires_at_s - time.time() <= 600
    assert server.scopes[-1] == "kafka"


def test_a_wrong_secret_is_told_and_not_shown(server: OidcServer) -> None:
    new_token = token_source(properties(server.token_endpoint, login("wrong-one")))
    assert new_token is not None
    with pytest.raises(TokenError) as refused:
        new_token()
    assert f"refuses the client '{CLIENT_ID}' (401 invalid_client)" in str(refused.value)
    assert "wrong-one" not in str(refused.value)


def test_a_server_that_is_not_there() -> None:
    new_token = token_source(properties("http://127.0.0.1:1/token", login(SECRET)))
    assert new_token is not None
    with pytest.raises(TokenError, match=r"The token endpoint http://127\.0\.0\.1:1/token gives no token: "):
        new_token()


def test_a_file_is_read_anew_and_its_token_says_when_it_expires(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    new_token = token_source(properties(file.as_uri()))
    assert new_token is not None
    with pytest.raises(TokenError, match="cannot be read"):
        new_token()
    for lifetime_s in (100, 1_000):
        file.write_text(f"{token_of('somebody', lifetime_s)}\n")
        token = new_token()
        assert token.text == file.read_text().strip()
        assert lifetime_s - 10 < token.expires_at_s - time.time() <= lifetime_s
    file.write_text("opaque")
    assert 0 < new_token().expires_at_s - time.time() <= 300
    file.write_text(" \n")
    with pytest.raises(TokenError, match="is empty"):
        new_token()


def test_amazons_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """The form that AWS publishes for MSK: a presigned URL of the action kafka-cluster:Connect, in base64url."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    kafka = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }
    assert properties_problems(kafka) == []
    of_msk = librdkafka_properties("b-1.prod.abc123.c2.kafka.eu-west-1.amazonaws.com:9098", kafka)
    new_token = token_source(of_msk)
    assert new_token is not None
    token = new_token()
    url = urlsplit(urlsafe_b64decode(token.text + "=" * (-len(token.text) % 4)).decode())
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert (url.scheme, url.netloc, query["Action"]) == (
        "https", "kafka.eu-west-1.amazonaws.com", "kafka-cluster:Connect",
    )  # fmt: skip
    assert query["X-Amz-Algorithm"] == "AWS4-HMAC-SHA256"
    assert re.fullmatch(r"AKIDEXAMPLE/\d{8}/eu-west-1/kafka-cluster/aws4_request", query["X-Amz-Credential"])
    assert re.fullmatch(r"[0-9a-f]{64}", query["X-Amz-Signature"])
    assert query["X-Amz-SignedHeaders"] == "host"
    assert 0 < token.expires_at_s - time.time() <= int(query["X-Amz-Expires"])
    elsewhere = token_source({**of_msk, "bootstrap.servers": "kafka.internal:9098"})
    assert elsewhere is not None
    with pytest.raises(TokenError, match="set AWS_REGION"):
        elsewhere()


def test_both_libraries_ask_the_same_source(server: OidcServer) -> None:
    """librdkafka is given no property that it does not need, and kafka-python gets the extensions, too."""
    of_client = properties(server.token_endpoint, f'{login(SECRET)} extension_logicalCluster="lkc-1"')
    provider = python_properties(of_client)["sasl_oauth_token_provider"]
    assert isinstance(provider, AbstractTokenProvider)
    assert provider.token().startswith(token_of(CLIENT_ID)[:20])
    assert provider.extensions() == {"logicalCluster": "lkc-1"}
    consumer = new_consumer(of_client, {"group.id": "g"})
    assert isinstance(consumer, Consumer)
    consumer.close()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": None}, "needs sasl.oauthbearer.token.endpoint.url"),
        ({"sasl.jaas.config": None}, 'must have clientId="..." and clientSecret="..."'),
        ({"sasl.jaas.config": f'{MODULE} clientID="c";'}, "has clientID, which our clients do not know. Did you mean"),
        ({"sasl.login.callback.handler.class": "com.example.Own"}, "can be OAuthBearerLoginCallbackHandler alone"),
        ({"sasl.mechanism": "PLAIN"}, "where sasl.mechanism is OAUTHBEARER alone"),
        ({"sasl.oauthbearer.token.endpoint.uri": "x"}, "Did you mean sasl.oauthbearer.token.endpoint.url?"),
    ],
)
def test_a_login_that_cannot_be_done_is_told_at_the_start(changed: dict[str, str | None], sentence: str) -> None:
    kafka = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://example.com/token",
        "sasl.jaas.config": f"{MODULE} {login('hush')};",
    }
    given = {name: value for name, value in {**kafka, **changed}.items() if value is not None}
    (problem,) = properties_problems(given)
    assert sentence in problem
    assert "hush" not in problem
