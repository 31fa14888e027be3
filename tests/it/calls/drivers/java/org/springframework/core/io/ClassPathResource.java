package org.springframework.core.io;

/** As in Spring, as far as the printed calls use it. */
public record ClassPathResource(String path, Class<?> beside) {
}
