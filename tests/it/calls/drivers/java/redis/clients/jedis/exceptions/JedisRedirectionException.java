package redis.clients.jedis.exceptions;

/** As in Jedis. */
public class JedisRedirectionException extends JedisDataException {
    public JedisRedirectionException(String message) {
        super(message);
    }
}
