// Package redis stands in for github.com/redis/go-redis/v9 if that cannot be had: as much of it as the printed calls use, with
// the same names and types, one connection at a time.
package redis

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Error is what the server replied.
type Error interface {
	error
	RedisError()
}

type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

type Options struct {
	Addr                                   string
	MaxRetries                             int
	DialTimeout, ReadTimeout, WriteTimeout time.Duration
}

// Client keeps a connection until it fails.
type Client struct {
	options *Options
	conn    net.Conn
	reader  *bufio.Reader
}

func NewClient(options *Options) *Client {
	if options.MaxRetries != -1 {
		panic("the calls retry by themselves")
	}
	return &Client{options: options}
}

// Cmd is a reply.
type Cmd struct {
	value any
	err   error
}

func (c *Cmd) Slice() ([]any, error) {
	if c.err != nil {
		return nil, c.err
	}
	slice, ok := c.value.([]any)
	if !ok {
		return nil, fmt.Errorf("redis: unexpected type=%T for Slice", c.value)
	}
	return slice, nil
}

func (c *Cmd) Text() (string, error) {
	if c.err != nil {
		return "", c.err
	}
	text, ok := c.value.(string)
	if !ok {
		return "", fmt.Errorf("redis: unexpected type=%T for String", c.value)
	}
	return text, nil
}

// Scripter runs scripts.
type Scripter interface {
	Eval(ctx context.Context, script string, keys []string, args ...any) *Cmd
	EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *Cmd
}

func (c *Client) Eval(_ context.Context, script string, keys []string, args ...any) *Cmd {
	return c.run("EVAL", script, keys, args)
}

func (c *Client) EvalSha(_ context.Context, sha1 string, keys []string, args ...any) *Cmd {
	return c.run("EVALSHA", sha1, keys, args)
}

// StringCmd is a text.
type StringCmd struct{ cmd *Cmd }

func (c *StringCmd) Result() (string, error) { return c.cmd.Text() }

func (c *Client) HGet(_ context.Context, key, field string) *StringCmd {
	return &StringCmd{c.do([]string{"HGET", key, field})}
}

// IntCmd is a number.
type IntCmd struct{ cmd *Cmd }

func (c *IntCmd) Result() (int64, error) {
	number, _ := c.cmd.value.(int64)
	return number, c.cmd.err
}

// Conn is a connection of its own.
type Conn struct{ *Client }

func (c *Client) Conn() *Conn { return &Conn{NewClient(c.options)} }

func (c *Conn) Wait(_ context.Context, replicas int, timeout time.Duration) *IntCmd {
	words := []string{"WAIT", strconv.Itoa(replicas), strconv.FormatInt(timeout.Milliseconds(), 10)}
	return &IntCmd{c.do(words)}
}

func (c *Conn) Close() error {
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}

// Script is a script with its hash.
type Script struct{ src, hash string }

func NewScript(src string) *Script {
	hash := sha1.Sum([]byte(src))
	return &Script{src, hex.EncodeToString(hash[:])}
}

// Run sends EVALSHA, and EVAL if the server does not know the script.
func (s *Script) Run(ctx context.Context, c Scripter, keys []string, args ...any) *Cmd {
	cmd := c.EvalSha(ctx, s.hash, keys, args...)
	if cmd.err != nil && strings.HasPrefix(cmd.err.Error(), "NOSCRIPT") {
		return c.Eval(ctx, s.src, keys, args...)
	}
	return cmd
}

func (c *Client) run(command, script string, keys []string, args []any) *Cmd {
	words := append([]string{command, script, strconv.Itoa(len(keys))}, keys...)
	for _, arg := range args {
		words = append(words, fmt.Sprint(arg))
	}
	return c.do(words)
}

func (c *Client) do(words []string) *Cmd {
	value, err := c.send(words)
	if _, isReply := err.(serverError); err != nil && !isReply && c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
	return &Cmd{value, err}
}

func (c *Client) send(words []string) (any, error) {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.options.Addr, c.options.DialTimeout)
		if err != nil {
			return nil, err
		}
		c.conn, c.reader = conn, bufio.NewReader(conn)
	}
	c.conn.SetDeadline(time.Now().Add(c.options.ReadTimeout))
	request := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(c.conn, request); err != nil {
		return nil, err
	}
	return c.read()
}

func (c *Client) read() (any, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], strings.TrimRight(line[1:], "\r\n")
	number, _ := strconv.ParseInt(rest, 10, 64)
	switch kind {
	case '-':
		return nil, serverError(rest)
	case ':':
		return number, nil
	case '$':
		if number < 0 {
			return nil, nil
		}
		text := make([]byte, number+2)
		_, err := io.ReadFull(c.reader, text)
		return string(text[:number]), err
	case '*':
		values := make([]any, number)
		for i := range values {
			if values[i], err = c.read(); err != nil {
				return nil, err
			}
		}
		return values, nil
	}
	return rest, nil
}
