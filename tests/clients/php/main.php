<?php
// Exercises PHP's memcached extension (libmemcached), by either protocol, and its sessions; prints a verdict per check.
//
//   php main.php HOST:PORT PREFIX text|binary [USER PASSWORD]

const EXPIRY_DEADLINE_S = 20;
const LARGE_BYTES = 2 ** 20 - 300;
const TOO_LARGE_BYTES = 2 * 2 ** 20;
const MANY_KEYS = 500;

[, $address, $prefix, $protocol] = $argv;
[$user, $password] = array_slice($argv, 4) + ['', ''];
[$host, $port] = explode(':', $address);

function connect(array $options = []): Memcached
{
    global $host, $port, $protocol, $user, $password;
    $client = new Memcached();
    $client->setOptions($options + [
        Memcached::OPT_BINARY_PROTOCOL => $protocol === 'binary',
        Memcached::OPT_COMPRESSION => false,
        Memcached::OPT_RECV_TIMEOUT => 30_000_000,
        Memcached::OPT_POLL_TIMEOUT => 30_000,
    ]);
    if ($user) {
        $client->setSaslAuthData($user, $password);
    }
    $client->addServer($host, (int) $port);
    return $client;
}

$client = connect();

function key_of(string $name): string
{
    global $prefix, $protocol;
    return "$prefix-php-$protocol-$name";
}

function require_that(bool $holds, string $what = 'it does not hold'): void
{
    global $client;
    if (!$holds) {
        throw new Exception("$what (the client's last result: {$client->getResultMessage()})");
    }
}

function is(string $key, mixed $value): void
{
    global $client;
    $found = $client->get($key);
    require_that($found === $value, substr("$key is " . var_export($found, true), 0, 200));
}

function missing(string $key): void
{
    global $client;
    is($key, false);
    result(Memcached::RES_NOTFOUND);
}

function result(int $code): void
{
    global $client;
    require_that($client->getResultCode() === $code, "the result is not $code");
}

function expires(string $key): void
{
    global $client;
    $deadline = microtime(true) + EXPIRY_DEADLINE_S;
    while ($client->get($key) !== false) {
        require_that(microtime(true) < $deadline, 'it is still there');
        usleep(20_000);
    }
}

$checks = [
    'get-set' => function () use ($client) {
        $key = key_of('get-set');
        missing($key);
        foreach (['value', '', "line\r\nbreak", 'ä', 42, 1.5, true, null, ['a' => [1, 2]]] as $value) {
            require_that($client->set($key, $value));
            is($key, $value);
        }
    },
    'add' => function () use ($client, $protocol) {
        require_that($client->add(key_of('add'), 'first'));
        require_that(!$client->add(key_of('add'), 'second'));
        result($protocol === 'binary' ? Memcached::RES_DATA_EXISTS : Memcached::RES_NOTSTORED);
        is(key_of('add'), 'first');
    },
    'replace' => function () use ($client, $protocol) {
        require_that(!$client->replace(key_of('replace'), 'x'));
        result($protocol === 'binary' ? Memcached::RES_NOTFOUND : Memcached::RES_NOTSTORED);
        $client->set(key_of('replace'), 'old');
        require_that($client->replace(key_of('replace'), 'new'));
        is(key_of('replace'), 'new');
    },
    'append-prepend' => function () use ($client) {
        $key = key_of('append');
        require_that(!$client->append($key, '>'));
        $client->set($key, 'middle');
        require_that($client->append($key, '>'));
        require_that($client->prepend($key, '<'));
        is($key, '<middle>');
    },
    'incr-decr' => function () use ($client, $protocol) {
        $key = key_of('incr');
        require_that($client->increment($key) === false);
        if ($protocol === 'binary') {
            require_that($client->increment($key, 1, 10) === 10, 'an initial value');
        }
        $client->set($key, 10);
        require_that($client->increment($key, 32) === 42);
        require_that($client->decrement($key, 100) === 0);
    },
    'cas' => function () use ($client) {
        $key = key_of('cas');
        $client->set($key, '1');
        $item = $client->get($key, null, Memcached::GET_EXTENDED);
        require_that($item['value'] === '1');
        require_that($client->cas($item['cas'], $key, '2'));
        require_that(!$client->cas($item['cas'], $key, '3'));
        result(Memcached::RES_DATA_EXISTS);
        is($key, '2');
        $client->delete($key);
        require_that(!$client->cas($item['cas'], $key, '3'));
        result(Memcached::RES_NOTFOUND);
    },
    'touch' => function () use ($client) {
        $key = key_of('touch');
        require_that(!$client->touch($key, 100));
        result(Memcached::RES_NOTFOUND);
        $client->set($key, 'x', 100);
        require_that($client->touch($key, 1));
        expires($key);
    },
    'delete' => function () use ($client) {
        $key = key_of('delete');
        require_that(!$client->delete($key));
        result(Memcached::RES_NOTFOUND);
        $client->set($key, 'x');
        require_that($client->delete($key));
        missing($key);
    },
    'multi-get' => function () use ($client) {
        $values = [];
        for ($number = 0; $number < MANY_KEYS; $number++) {
            $values[key_of("multi-$number")] = "value $number";
        }
        require_that($client->setMulti($values, 100));
        require_that($client->getMulti([...array_keys($values), key_of('absent')], Memcached::GET_PRESERVE_ORDER)
            === $values + [key_of('absent') => null]);
        $client->getDelayed(array_keys($values), true);
        $fetched = 0;
        while ($item = $client->fetch()) {
            require_that($values[$item['key']] === $item['value'] && $item['cas'] > 0);
            $fetched++;
        }
        require_that($fetched === MANY_KEYS, "fetched $fetched");
        require_that(array_unique($client->deleteMulti(array_keys($values))) === [key_of('multi-0') => true]);
        require_that($client->getMulti(array_keys($values)) === []);
    },
    'expiry' => function () use ($client, $protocol) {
        if ($protocol === 'text') { // the binary protocol has no negative times
            $client->set(key_of('expiry'), 'x', -1);
            missing(key_of('expiry'));
        }
        $client->set(key_of('expiry'), 'x', time() + 1000);
        is(key_of('expiry'), 'x');
        $client->set(key_of('expiry'), 'x', 1);
        expires(key_of('expiry'));
    },
    'large' => function () use ($client) {
        $key = key_of('large');
        $value = random_bytes(LARGE_BYTES);
        require_that($client->set($key, $value));
        is($key, $value);
        require_that(!$client->set($key, str_repeat('x', TOO_LARGE_BYTES)));
        result(Memcached::RES_E2BIG);
        require_that($client->set($key, 'after'));
        is($key, 'after');
    },
    'flags' => function () use ($client) {
        $flagged = connect([Memcached::OPT_USER_FLAGS => 0x2a]);
        require_that($flagged->set(key_of('flags'), ['x']));
        $item = $client->get(key_of('flags'), null, Memcached::GET_EXTENDED);
        require_that($item['value'] === ['x'] && $item['flags'] === 0x2a);
    },
    'compression' => function () use ($client) {
        $value = str_repeat('compressible ', 30_000);
        foreach ([Memcached::COMPRESSION_FASTLZ, Memcached::COMPRESSION_ZLIB] as $type) {
            $compressing = connect([Memcached::OPT_COMPRESSION => true, Memcached::OPT_COMPRESSION_TYPE => $type]);
            require_that($compressing->set(key_of('compressed'), $value));
            require_that($compressing->get(key_of('compressed')) === $value);
            is(key_of('compressed'), $value);
        }
    },
    'buffered' => function () use ($client) {
        $buffered = connect([Memcached::OPT_BUFFER_WRITES => true, Memcached::OPT_NO_BLOCK => true]);
        for ($number = 0; $number < MANY_KEYS; $number++) {
            $buffered->set(key_of("buffered-$number"), $number);
        }
        require_that($buffered->flushBuffers());
        // The buffered ones are answered when the connection is next read from.
        require_that($buffered->get(key_of('buffered-' . (MANY_KEYS - 1))) === MANY_KEYS - 1);
        is(key_of('buffered-0'), 0);
    },
    'sessions' => function () use ($address, $protocol, $client, $user, $password) {
        ini_set('session.save_handler', 'memcached');
        ini_set('session.save_path', $address);
        ini_set('session.use_cookies', '0');
        ini_set('session.cache_limiter', '');
        ini_set('memcached.sess_binary_protocol', $protocol === 'binary' ? '1' : '0');
        ini_set('memcached.sess_sasl_username', $user);
        ini_set('memcached.sess_sasl_password', $password);
        ini_set('memcached.sess_prefix', key_of('session.'));
        $session = bin2hex(random_bytes(8));
        for ($visit = 1; $visit <= 3; $visit++) {
            session_id($session);
            require_that(session_start(), 'session_start');
            require_that(($_SESSION['visits'] ?? 0) === $visit - 1, 'the number of visits');
            $_SESSION['visits'] = $visit;
            require_that($client->get(key_of("session.lock.$session")) !== false, 'the session is not locked');
            require_that(session_write_close(), 'session_write_close');
            missing(key_of("session.lock.$session"));
        }
        session_id($session);
        session_start();
        session_destroy();
        missing(key_of("session.$session"));
    },
    'stats' => function () use ($client, $address) {
        require_that($client->getStats()[$address]['pid'] > 0);
        require_that(preg_match('/^\d+\.\d+\.\d+$/', $client->getVersion()[$address]) === 1);
    },
    'flush' => function () use ($client) {
        $client->set(key_of('flush'), 'x');
        require_that($client->flush());
        missing(key_of('flush'));
    },
];

// Sessions want no output before them: it comes at the end.
ob_start();
$failed = 0;
foreach ($checks as $name => $check) {
    try {
        $check();
        echo "ok $name\n";
    } catch (Throwable $error) {
        $failed++;
        echo "FAIL $name: line {$error->getLine()}: ", str_replace("\n", ' ', $error->getMessage()), "\n";
    }
}
echo 'verdict: ', count($checks) - $failed, " ok, $failed failed\n";
exit($failed ? 1 : 0);
