package redis.clients.jedis;

import java.io.IOException;
import java.util.List;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisNoScriptException;
import standin.Resp;

/** Stands in for Jedis: as much of it as the printed calls use, over one connection. */
public class UnifiedJedis {
    private final Resp connection;

    UnifiedJedis(HostAndPort address) {
        connection = new Resp(address.host(), address.port());
    }

    public Object evalsha(String sha1, List<String> keys, List<String> args) {
        return run("EVALSHA", sha1, keys, args);
    }

    public Object eval(String script, List<String> keys, List<String> args) {
        return run("EVAL", script, keys, args);
    }

    Object send(List<String> words) {
        try {
            return connection.command(words);
        } catch (IOException e) {
            throw new JedisConnectionException(e.toString());
        }
    }

    void disconnect() {
        connection.close();
    }

    private Object run(String command, String script, List<String> keys, List<String> args) {
        try {
            return connection.eval(command, script, keys, args);
        } catch (IOException e) {
            throw new JedisConnectionException(e.toString());
        } catch (Resp.ServerError e) {
            boolean isUnknown = e.getMessage().startsWith("NOSCRIPT");
            throw isUnknown ? new JedisNoScriptException(e.getMessage()) : new JedisDataException(e.getMessage());
        }
    }
}
