import java.security.Provider;
import java.security.SecureRandomSpi;
import java.security.Security;
import java.util.Random;

/**
 * Makes the ids that Kafka gives to members depend on a seed. They are random UUIDs, and the order of hash maps goes by
 * them: without this a history could not be played again.
 */
final class SeededIds extends Provider {
    private static final Random RANDOM = new Random();

    private SeededIds() {
        super("SeededIds", "1", "random numbers from a seed");
        putService(new Service(this, "SecureRandom", "Seeded", Numbers.class.getName(), null, null) {
            @Override
            public Object newInstance(Object parameter) {
                return new Numbers();
            }
        });
    }

    /** Must come before the first UUID is made: the generator is looked up once. */
    static void install() {
        Security.insertProviderAt(new SeededIds(), 1);
    }

    static void seed(long seed) {
        RANDOM.setSeed(seed);
    }

    private static final class Numbers extends SecureRandomSpi {
        @Override
        protected void engineSetSeed(byte[] seed) { }

        @Override
        protected void engineNextBytes(byte[] bytes) {
            RANDOM.nextBytes(bytes);
        }

        @Override
        protected byte[] engineGenerateSeed(int size) {
            byte[] bytes = new byte[size];
            RANDOM.nextBytes(bytes);
            return bytes;
        }
    }
}
