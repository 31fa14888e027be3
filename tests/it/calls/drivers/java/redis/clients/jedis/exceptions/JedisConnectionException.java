package redis.clients.jedis.exceptions;

/** As in Jedis. */
public class JedisConnectionException extends JedisException {
    public JedisConnectionException(String message) {
        super(message);
    }
}
