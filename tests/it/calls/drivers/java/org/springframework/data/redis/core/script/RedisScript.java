package org.springframework.data.redis.core.script;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import org.springframework.core.io.ClassPathResource;

/** As in Spring Data Redis, as far as the printed calls use it. */
public record RedisScript<T>(String text, Class<T> type) {
    public static <T> RedisScript<T> of(ClassPathResource resource, Class<T> type) {
        try (InputStream file = resource.beside().getResourceAsStream(resource.path())) {
            return new RedisScript<>(new String(file.readAllBytes(), StandardCharsets.UTF_8), type);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
