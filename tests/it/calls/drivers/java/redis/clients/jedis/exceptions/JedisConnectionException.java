package redis.clients.jedis.exceptions;

/** As in Jedis. */
public class JedisConnectionException extends JedisException {
    public JedisConnectionException(String message) {
        super(message);
    }

    public JedisConnectionException(String message, Throwable cause) {
        super(message, cause);
    }
}
