// Reads orders from standard input, a line each, and prints what the printed calls return.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"driver/deduct"
	"driver/hold"
	"driver/multideduct"
	"driver/refund"
	"driver/settle"
	"driver/sharded"
)

var opened = map[string]*sharded.Activity{}

func text(value int64) string {
	if value < 0 {
		return "-"
	}
	return strconv.FormatInt(value, 10)
}

func run(ctx context.Context, client *redis.Client, words []string) (string, error) {
	kind, sentBefore := words[0], words[len(words)-1] == "1"
	words = words[1 : len(words)-1]
	switch kind {
	case "multi":
		quantities, order := map[string]int64{}, []string{}
		for _, item := range strings.Split(words[1], ",") {
			activity, units, _ := strings.Cut(item, "=")
			quantities[activity], _ = strconv.ParseInt(units, 10, 64)
			order = append(order, activity)
		}
		outcome, err := multideduct.MultiDeduct(ctx, client, words[0], quantities, words[2], sentBefore)
		shown := outcome.Status.String()
		for _, activity := range order {
			item := outcome.Items[activity]
			shown += fmt.Sprintf(" %s:%s:%s:%s", activity, item.Status, text(item.Stock), text(item.Bought))
		}
		return shown, err
	case "hold":
		quantity, _ := strconv.ParseInt(words[2], 10, 64)
		duration, _ := strconv.ParseInt(words[3], 10, 64)
		outcome, err := hold.Hold(ctx, client, words[0], words[1], quantity, time.Duration(duration)*time.Millisecond, words[4], sentBefore)
		deadline := int64(-1)
		if !outcome.Deadline.IsZero() {
			deadline = outcome.Deadline.UnixMilli()
		}
		return fmt.Sprintf("%s %s %s %s", outcome.Status, text(outcome.Stock), text(outcome.Bought), text(deadline)), err
	case "confirm", "release":
		step := settle.Confirm
		if kind == "release" {
			step = settle.Release
		}
		outcome, err := step(ctx, client, words[0], words[1])
		user := outcome.User
		if outcome.Quantity < 0 {
			user = "-"
		}
		return fmt.Sprintf("%s %s %s %s %s", outcome.Status, text(outcome.Stock), text(outcome.Bought), text(outcome.Quantity), user), err
	case "sharded":
		activity := opened[words[0]]
		if activity == nil {
			node := func(context.Context, string) (*redis.Client, error) { return client, nil }
			var err error
			if activity, err = sharded.Open(ctx, node, words[0]); err != nil {
				return "", err
			}
			opened[words[0]] = activity
		}
		quantity, _ := strconv.ParseInt(words[2], 10, 64)
		outcome, err := activity.Deduct(ctx, words[1], quantity, words[3], sentBefore)
		return fmt.Sprintf("%s %s %s", outcome.Status, text(outcome.Stock), text(outcome.Bought)), err
	case "deduct":
		quantity, _ := strconv.ParseInt(words[2], 10, 64)
		outcome, err := deduct.Deduct(ctx, client, words[0], words[1], quantity, words[3], sentBefore)
		return fmt.Sprintf("%s %s %s", outcome.Status, text(outcome.Stock), text(outcome.Bought)), err
	}
	outcome, err := refund.Refund(ctx, client, words[0], words[1], words[2], words[3], sentBefore)
	return fmt.Sprintf("%s %s %s %s", outcome.Status, text(outcome.Stock), text(outcome.Bought), text(outcome.Quantity)), err
}

func main() {
	client := deduct.Connect("127.0.0.1:" + os.Args[1])
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		shown, err := run(context.Background(), client, strings.Split(lines.Text(), "\t"))
		var refused redis.Error
		switch {
		case err == nil:
			fmt.Println(shown)
		case errors.As(err, &refused):
			fmt.Println("refused:", refused)
		default:
			fmt.Println("unknown")
		}
	}
}
