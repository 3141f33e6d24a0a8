// Exercises github.com/bradfitz/gomemcache against a server, and prints a verdict per check.
//
//	go run . HOST:PORT PREFIX
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

const (
	expiryDeadline = 20 * time.Second
	largeBytes     = 1<<20 - 300
	tooLargeBytes  = 2 << 20
	manyKeys       = 500
)

// checks holds what all of them use; `key` makes names that no other run uses.
type checks struct {
	client *memcache.Client
	prefix string
}

func (c *checks) key(name string) string { return c.prefix + "-go-" + name }

// must ends the running check.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func require(holds bool, what string, details ...any) {
	if !holds {
		panic(fmt.Errorf(what, details...))
	}
}

// fails requires this error, which the client makes of the server's reply.
func fails(err, wanted error) { require(errors.Is(err, wanted), "got error %v, not %v", err, wanted) }

func (c *checks) set(key, value string) {
	must(c.client.Set(&memcache.Item{Key: key, Value: []byte(value)}))
}

func (c *checks) is(key, value string) {
	item, err := c.client.Get(key)
	must(err)
	require(string(item.Value) == value, "%s is %.40q, not %.40q", key, item.Value, value)
}

func (c *checks) missing(key string) {
	_, err := c.client.Get(key)
	fails(err, memcache.ErrCacheMiss)
}

// expires waits until the key is a miss.
func (c *checks) expires(key string) {
	for end := time.Now().Add(expiryDeadline); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err := c.client.Get(key); errors.Is(err, memcache.ErrCacheMiss) {
			return
		}
	}
	panic(errors.New("it is still there"))
}

func (c *checks) getSet() {
	key := c.key("get-set")
	c.missing(key)
	for _, value := range []string{"value", "", "line\r\nbreak", "\x00\xff"} {
		c.set(key, value)
		c.is(key, value)
	}
}

func (c *checks) add() {
	item := &memcache.Item{Key: c.key("add"), Value: []byte("first")}
	must(c.client.Add(item))
	fails(c.client.Add(item), memcache.ErrNotStored)
	c.is(item.Key, "first")
}

func (c *checks) replace() {
	item := &memcache.Item{Key: c.key("replace"), Value: []byte("new")}
	fails(c.client.Replace(item), memcache.ErrNotStored)
	c.set(item.Key, "old")
	must(c.client.Replace(item))
	c.is(item.Key, "new")
}

func (c *checks) appendPrepend() {
	key := c.key("append-prepend")
	fails(c.client.Append(&memcache.Item{Key: key, Value: []byte(">")}), memcache.ErrNotStored)
	c.set(key, "middle")
	must(c.client.Append(&memcache.Item{Key: key, Value: []byte(">")}))
	must(c.client.Prepend(&memcache.Item{Key: key, Value: []byte("<")}))
	c.is(key, "<middle>")
}

func (c *checks) incrDecr() {
	key := c.key("incr-decr")
	_, err := c.client.Increment(key, 1)
	fails(err, memcache.ErrCacheMiss)
	c.set(key, "10")
	up, err := c.client.Increment(key, 32)
	must(err)
	down, err := c.client.Decrement(key, 100)
	must(err)
	require(up == 42 && down == 0, "got %d and %d", up, down)
	c.set(key, "text")
	_, err = c.client.Increment(key, 1)
	require(err != nil && strings.Contains(err.Error(), "non-numeric"), "got error %v", err)
}

func (c *checks) cas() {
	key := c.key("cas")
	c.set(key, "1")
	item, err := c.client.Get(key)
	must(err)
	item.Value = []byte("2")
	must(c.client.CompareAndSwap(item))
	item.Value = []byte("3")
	fails(c.client.CompareAndSwap(item), memcache.ErrCASConflict)
	c.is(key, "2")
	must(c.client.Delete(key))
	fails(c.client.CompareAndSwap(item), memcache.ErrCacheMiss)
}

func (c *checks) touch() {
	key := c.key("touch")
	fails(c.client.Touch(key, 100), memcache.ErrCacheMiss)
	must(c.client.Set(&memcache.Item{Key: key, Value: []byte("x"), Expiration: 100}))
	must(c.client.Touch(key, 1))
	c.expires(key)
}

func (c *checks) gat() {
	key := c.key("gat")
	_, err := c.client.GetAndTouch(key, 100)
	fails(err, memcache.ErrCacheMiss)
	must(c.client.Set(&memcache.Item{Key: key, Value: []byte("x"), Flags: 3}))
	item, err := c.client.GetAndTouch(key, 1)
	must(err)
	require(string(item.Value) == "x" && item.Flags == 3, "got %+v", item)
	c.expires(key)
}

func (c *checks) delete() {
	key := c.key("delete")
	fails(c.client.Delete(key), memcache.ErrCacheMiss)
	c.set(key, "x")
	must(c.client.Delete(key))
	c.missing(key)
}

func (c *checks) multiGet() {
	keys := []string{c.key("absent")}
	for number := 0; number < manyKeys; number++ {
		key := c.key(fmt.Sprint("multi-", number))
		c.set(key, fmt.Sprint("value ", number))
		keys = append(keys, key)
	}
	items, err := c.client.GetMulti(keys)
	must(err)
	require(len(items) == manyKeys, "got %d items", len(items))
	for number, key := range keys[1:] {
		require(string(items[key].Value) == fmt.Sprint("value ", number), "%s is %q", key, items[key].Value)
	}
}

func (c *checks) expiry() {
	key := c.key("expiry")
	must(c.client.Set(&memcache.Item{Key: key, Value: []byte("x"), Expiration: -1}))
	c.missing(key)
	must(c.client.Set(&memcache.Item{Key: key, Value: []byte("x"), Expiration: int32(time.Now().Unix()) + 1000}))
	c.is(key, "x")
	must(c.client.Set(&memcache.Item{Key: key, Value: []byte("x"), Expiration: 1}))
	c.expires(key)
}

func (c *checks) large() {
	key := c.key("large")
	value := bytes.Repeat([]byte("0123456789abcdef"), largeBytes/16)
	must(c.client.Set(&memcache.Item{Key: key, Value: value}))
	c.is(key, string(value))
	err := c.client.Set(&memcache.Item{Key: key, Value: make([]byte, tooLargeBytes)})
	require(err != nil && strings.Contains(err.Error(), "too large"), "got error %v", err)
	c.set(key, "after")
	c.is(key, "after")
}

func (c *checks) flags() {
	key := c.key("flags")
	for _, flags := range []uint32{0, 1, 0xffff, 0xffffffff} {
		must(c.client.Set(&memcache.Item{Key: key, Value: []byte("x"), Flags: flags}))
		item, err := c.client.Get(key)
		must(err)
		require(item.Flags == flags, "got flags %d, not %d", item.Flags, flags)
	}
}

func (c *checks) flush() {
	must(c.client.Ping())
	c.set(c.key("flush"), "x")
	must(c.client.FlushAll())
	c.missing(c.key("flush"))
}

// run says whether the check held.
func run(name string, check func()) (held bool) {
	defer func() {
		if why := recover(); why != nil {
			fmt.Printf("FAIL %s: %v\n", name, why)
		}
	}()
	check()
	fmt.Println("ok", name)
	return true
}

func main() {
	c := &checks{client: memcache.New(os.Args[1]), prefix: os.Args[2]}
	c.client.Timeout = 30 * time.Second
	steps := []struct {
		name  string
		check func()
	}{
		{"get-set", c.getSet}, {"add", c.add}, {"replace", c.replace}, {"append-prepend", c.appendPrepend},
		{"incr-decr", c.incrDecr}, {"cas", c.cas}, {"touch", c.touch}, {"gat", c.gat}, {"delete", c.delete},
		{"multi-get", c.multiGet}, {"expiry", c.expiry}, {"large", c.large}, {"flags", c.flags}, {"flush", c.flush},
	}
	failed := 0
	for _, step := range steps {
		if !run(step.name, step.check) {
			failed++
		}
	}
	fmt.Printf("verdict: %d ok, %d failed\n", len(steps)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
