package org.springframework.stereotype;

/** As in Spring. */
public @interface Component {
}
