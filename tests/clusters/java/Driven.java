import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;

/** The pipe to the driver: JSON in both directions, each with its length in front, as Python's Connection has it. */
final class Driven {
    private static final ObjectMapper JSON = new ObjectMapper();
    final LinkedBlockingQueue<JsonNode> commands = new LinkedBlockingQueue<>();
    private final DataOutputStream output = new DataOutputStream(new FileOutputStream(FileDescriptor.out));
    private final String name;

    /** Standard output is the pipe from now on: whatever else is printed goes elsewhere. Without a driver the process ends. */
    Driven(String name) {
        this.name = name;
        System.setOut(System.err);
        Thread reader = new Thread(() -> {
            try (DataInputStream input = new DataInputStream(System.in)) {
                while (true) {
                    commands.add(JSON.readTree(input.readNBytes(input.readInt())));
                }
            } catch (IOException end) {
                Runtime.getRuntime().halt(0);
            }
        });
        reader.setDaemon(true);
        reader.start();
    }

    /** Say what happened to a member; facts are names and values in turns. */
    void say(String event, Object... facts) {
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("at_ms", System.currentTimeMillis());
        said.put("action", "member");
        said.put("member", name);
        said.put("event", event);
        for (int index = 0; index < facts.length; index += 2) {
            said.put((String) facts[index], facts[index + 1]);
        }
        write(said);
    }

    synchronized void write(Object said) {
        try {
            byte[] bytes = JSON.writeValueAsBytes(said);
            output.writeInt(bytes.length);
            output.write(bytes);
            output.flush();
        } catch (IOException end) {
            Runtime.getRuntime().halt(0);
        }
    }

    /** Return the properties of the arguments from one on, each as name=value. */
    static Properties properties(String[] arguments, int first) {
        Properties properties = new Properties();
        for (int index = first; index < arguments.length; index++) {
            String[] setting = arguments[index].split("=", 2);
            properties.put(setting[0], setting[1]);
        }
        return properties;
    }
}
