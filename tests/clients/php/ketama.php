<?php
// Prints the place in the list of the server where libmemcached's weighted ketama looks for key-0, key-1 and so on.
//
//   php ketama.php KEYS HOST:PORT=WEIGHT...

$client = new Memcached();
$client->setOption(Memcached::OPT_LIBKETAMA_COMPATIBLE, true);
$places = [];
foreach (array_slice($argv, 2) as $place => $server) {
    [$name, $weight] = explode('=', $server);
    [$host, $port] = explode(':', $name);
    $client->addServer($host, (int) $port, (int) $weight);
    $places[$name] = $place;
}
for ($number = 0; $number < (int) $argv[1]; $number++) {
    $found = $client->getServerByKey("key-$number");
    echo $places["{$found['host']}:{$found['port']}"], "\n";
}
