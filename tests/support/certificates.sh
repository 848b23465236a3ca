#!/bin/sh
# SPDX-License-Identifier: MIT
# Make the certificates that broker.h lists, in the current folder, and
# tls12.conf, with which OpenSSL knows no more than TLS 1.2.
set -eu

cat >tls12.conf <<'END'
openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = default
[default]
MaxProtocol = TLSv1.2
END

# openssl ca, since it alone of OpenSSL 1.1 to 3.3 sets the first day.
cat >ca.conf <<'END'
[ca]
default_ca = here
[here]
database = index
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
END
: >index

request() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
        -keyout "$1.key" -subj "/CN=$1" "$2" -out "$3"
}

# sign ROLE NAME CA EXTENSION [DATES]
sign() {
    role=$1 name=$2 ca=$3
    echo "$4" >"$name.ext"
    shift 4
    [ $# -gt 0 ] || set -- -days 2
    openssl ca -batch -notext -config ca.conf -cert "$ca.pem" \
        -keyfile "$ca.key" -in "$role.csr" -out "$name.pem" \
        -extfile "$name.ext" "$@"
}

for ca in ca other-ca; do
    request $ca -x509 $ca.pem
done
for role in server client; do
    request $role -new $role.csr
done

here=subjectAltName=DNS:localhost
sign server server ca $here
sign server server-elsewhere ca \
    "subjectAltName=DNS:broker.example,DNS:*.broker.example"
sign server server-address ca subjectAltName=IP:127.0.0.1,IP:::1
sign server server-expired ca $here -startdate 20010101000000Z \
    -enddate 20020101000000Z
sign server server-early ca $here -startdate 20400101000000Z \
    -enddate 20410101000000Z

use=extendedKeyUsage=clientAuth
sign client client ca $use
sign client client-other other-ca $use
sign client client-expired ca $use -startdate 20010101000000Z \
    -enddate 20020101000000Z
cat client.pem client.key >client-both.pem
{ cat client.pem; head -n 4 ca.pem; } >client-chain.pem
openssl pkcs8 -topk8 -in client.key -out client-locked.key \
    -passout 'pass:open sesame'

mkdir cas
cp ca.pem cas
openssl rehash cas
