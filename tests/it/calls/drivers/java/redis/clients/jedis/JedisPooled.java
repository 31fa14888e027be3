package redis.clients.jedis;

/** As in Jedis, with one connection. */
public class JedisPooled extends UnifiedJedis {
    public JedisPooled(HostAndPort address, DefaultJedisClientConfig config) {
        super(address);
    }
}
