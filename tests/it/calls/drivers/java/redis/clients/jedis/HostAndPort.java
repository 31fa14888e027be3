package redis.clients.jedis;

/** As in Jedis. */
public record HostAndPort(String host, int port) {
}
