package org.springframework.data.redis.core;

import io.lettuce.core.RedisCommandExecutionException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import org.springframework.dao.QueryTimeoutException;
import org.springframework.data.redis.RedisConnectionFailureException;
import org.springframework.data.redis.RedisSystemException;
import org.springframework.data.redis.core.script.RedisScript;
import standin.Resp;

/** Stands in for Spring Data Redis: EVALSHA, then EVAL, and its exceptions. */
public class StringRedisTemplate {
    private final Resp connection;

    public StringRedisTemplate(String host, int port) {
        connection = new Resp(host, port);
    }

    public <T> T execute(RedisScript<T> script, List<String> keys, Object... args) {
        // As the template's serializer does, which knows no other types.
        List<String> arguments = Arrays.stream(args).map(arg -> (String) arg).toList();
        try {
            try {
                return script.type().cast(connection.eval("EVALSHA", sha1(script.text()), keys, arguments));
            } catch (Resp.ServerError e) {
                if (!e.getMessage().startsWith("NOSCRIPT")) {
                    throw e;
                }
                return script.type().cast(connection.eval("EVAL", script.text(), keys, arguments));
            }
        } catch (Resp.ServerError e) {
            throw new RedisSystemException("Error in execution", new RedisCommandExecutionException(e.getMessage()));
        } catch (SocketTimeoutException e) {
            throw new QueryTimeoutException("Redis command timed out", e);
        } catch (ConnectException e) {
            throw new RedisConnectionFailureException("Redis connection failed", e);
        } catch (IOException e) {
            throw new RedisSystemException("Redis exception", e);
        }
    }

    private static String sha1(String text) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-1").digest(text.getBytes(StandardCharsets.UTF_8));
            return HexFormat.of().formatHex(digest);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
