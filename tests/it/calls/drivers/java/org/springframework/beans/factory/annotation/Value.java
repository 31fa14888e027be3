package org.springframework.beans.factory.annotation;

/** As in Spring. */
public @interface Value {
    String value();
}
