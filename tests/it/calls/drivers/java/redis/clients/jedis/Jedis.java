package redis.clients.jedis;

import java.util.List;

/** One connection, as in Jedis. */
public class Jedis extends UnifiedJedis implements AutoCloseable {
    public Jedis(HostAndPort address) {
        super(address);
    }

    public String hget(String key, String field) {
        return (String) send(List.of("HGET", key, field));
    }

    public long waitReplicas(int replicas, long timeout) {
        return (Long) send(List.of("WAIT", String.valueOf(replicas), String.valueOf(timeout)));
    }

    @Override
    public void close() {
        disconnect();
    }
}
