# Exercises Debian's dalli, which speaks the binary protocol, against a server, and prints a verdict per check.
#
#   ruby main.rb HOST:PORT PREFIX [USER PASSWORD]
require "dalli"

EXPIRY_DEADLINE_S = 20
LARGE_BYTES = 2**20 - 300
TOO_LARGE_BYTES = 2 * 2**20
MANY_KEYS = 500

ADDRESS, PREFIX, USERNAME, PASSWORD = ARGV
LOGIN = USERNAME ? { username: USERNAME, password: PASSWORD } : {}
Dalli.logger.level = Logger::FATAL
CLIENT = Dalli::Client.new(ADDRESS, socket_timeout: 30, **LOGIN)
# What it stores raw other clients read, and it can count with.
RAW = { raw: true }.freeze

def key(name) = "#{PREFIX}-ruby-#{name}"

def require_that(holds, what = "it does not hold")
  raise what unless holds
end

def is(name, value, options = nil)
  found = CLIENT.get(name, options)
  require_that found == value, "#{name} is #{found.inspect[0, 60]}"
end

def expires(name)
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + EXPIRY_DEADLINE_S
  until CLIENT.get(name).nil?
    require_that Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline, "it is still there"
    sleep 0.02
  end
end

CHECKS = {
  "get-set" => lambda {
    is key("get-set"), nil
    ["value", "", "line\r\nbreak", "ä", 42, 1.5, [1, { two: :three }], true].each do |value|
      require_that CLIENT.set(key("get-set"), value)
      is key("get-set"), value
    end
  },
  "add" => lambda {
    require_that CLIENT.add(key("add"), "first")
    require_that !CLIENT.add(key("add"), "second")
    is key("add"), "first"
  },
  "replace" => lambda {
    CLIENT.replace(key("replace"), "x") # what it returns is the status, which is true
    is key("replace"), nil
    CLIENT.set(key("replace"), "old")
    require_that CLIENT.replace(key("replace"), "new")
    is key("replace"), "new"
  },
  "append-prepend" => lambda {
    require_that !CLIENT.append(key("append"), ">")
    CLIENT.set(key("append"), "middle", 0, RAW)
    require_that CLIENT.append(key("append"), ">")
    require_that CLIENT.prepend(key("append"), "<")
    is key("append"), "<middle>", RAW
  },
  "incr-decr" => lambda {
    require_that CLIENT.incr(key("incr"), 1).nil?
    require_that CLIENT.incr(key("incr"), 1, 0, 10) == 10
    require_that CLIENT.incr(key("incr"), 32) == 42
    require_that CLIENT.decr(key("incr"), 100).zero?
    require_that CLIENT.incr(key("incr"), 2**40) == 2**40
  },
  "cas" => lambda {
    require_that CLIENT.cas(key("cas")) { "x" }.nil?, "of an absent key"
    CLIENT.set(key("cas"), 1)
    require_that CLIENT.cas(key("cas")) { |value| value + 1 }
    is key("cas"), 2
    lost = CLIENT.cas(key("cas")) { |value| CLIENT.set(key("cas"), 10) && (value + 1) }
    require_that !lost, "a lost race was not told"
    is key("cas"), 10
    _, number = CLIENT.get_cas(key("cas"))
    require_that CLIENT.set_cas(key("cas"), 11, number)
    require_that !CLIENT.replace_cas(key("cas"), 12, number)
    require_that !CLIENT.delete_cas(key("cas"), number)
    is key("cas"), 11
  },
  "touch" => lambda {
    require_that !CLIENT.touch(key("touch"), 100)
    CLIENT.set(key("touch"), "x", 100)
    require_that CLIENT.touch(key("touch"), 1)
    expires key("touch")
  },
  "gat" => lambda {
    require_that CLIENT.gat(key("gat"), 100).nil?
    CLIENT.set(key("gat"), ["x"], 100)
    require_that CLIENT.gat(key("gat"), 1) == ["x"]
    expires key("gat")
  },
  "delete" => lambda {
    require_that !CLIENT.delete(key("delete"))
    CLIENT.set(key("delete"), "x")
    require_that CLIENT.delete(key("delete"))
    is key("delete"), nil
  },
  "multi-get" => lambda {
    values = (0...MANY_KEYS).to_h { |number| [key("multi-#{number}"), "value #{number}"] }
    CLIENT.multi { values.each { |name, value| CLIENT.set(name, value) } }
    require_that CLIENT.get_multi(*values.keys, key("absent")) == values
  },
  "expiry" => lambda {
    CLIENT.set(key("expiry"), "x", 40 * 24 * 3600)
    is key("expiry"), "x"
    CLIENT.set(key("expiry"), "x", 1)
    expires key("expiry")
  },
  "large" => lambda {
    value = Random.new(1).bytes(LARGE_BYTES)
    require_that CLIENT.set(key("large"), value, 0, RAW.merge(compress: false))
    require_that CLIENT.get(key("large"), RAW) == value
    taken = begin
      unlimited = Dalli::Client.new(ADDRESS, value_max_bytes: 4 * TOO_LARGE_BYTES, compress: false, **LOGIN)
      unlimited.set(key("large"), "x" * TOO_LARGE_BYTES, 0, RAW)
    rescue Dalli::DalliError
      false
    end
    require_that !taken, "a value of #{TOO_LARGE_BYTES} bytes was taken"
    CLIENT.set(key("large"), "after")
    is key("large"), "after"
  },
  "compression" => lambda {
    value = "compressible " * 30_000
    compressing = Dalli::Client.new(ADDRESS, compress: true, compression_min_size: 100, **LOGIN)
    require_that compressing.set(key("compressed"), value)
    require_that compressing.get(key("compressed")) == value
    require_that CLIENT.get(key("compressed")) == value, "another client, by the flags"
  },
  "fetch" => lambda {
    require_that CLIENT.fetch(key("fetch"), 100) { "made" } == "made"
    require_that CLIENT.fetch(key("fetch"), 100) { raise "made twice" } == "made"
  },
  "stats" => lambda {
    require_that CLIENT.stats.values.first["pid"].to_i.positive?
    require_that CLIENT.version.values.first.match?(/\A\d/)
  },
  "flush" => lambda {
    CLIENT.set(key("flush"), "x")
    require_that CLIENT.flush.all?
    is key("flush"), nil
  },
}.freeze

failed = CHECKS.count do |name, check|
  check.call
  puts "ok #{name}"
  false
rescue StandardError => e
  puts "FAIL #{name}: #{e.class}: #{e.message.tr("\n", ' ')} (line #{e.backtrace_locations&.map(&:lineno)&.first(3)})"
  true
end
puts "verdict: #{CHECKS.size - failed} ok, #{failed} failed"
exit failed.zero?
