#!/usr/bin/env bash
# Makes what the secure pipeline needs into compose/secure/generated (or another folder): an authority and the certificates that it
# signs, a Kafka password for each role, Redis's user, tokens of the state API. Needs openssl.
#   secrets.sh [FOLDER]              DAYS=365 says how long certificates are valid
# What exists is left alone; delete a file to have it made again, and start the services that use it again.
set -euo pipefail
umask 077
say() { echo "surescale: $*" >&2; }
command -v openssl > /dev/null || { say "no openssl: install it (Debian: apt-get install openssl)"; exit 1; }
folder=${1:-$(dirname "$0")/generated}
days=${DAYS:-365}
[[ $days =~ ^[1-9][0-9]{0,4}$ ]] || { say "DAYS: ${days@Q} is no number of days; set one like 365"; exit 1; }
mkdir -p "$folder/kafka-passwords"
cd "$folder"
# Other users of this machine come no further than this folder. Containers get single files, and have users of their own.
chmod 700 .

made=0
make_file() { # NAME COMMAND...: standard output becomes the file, whole or not at all
    local name=$1
    shift
    [ ! -s "$name" ] || return 0
    "$@" > "$name.new"
    chmod 444 "$name.new"
    mv "$name.new" "$name"
    made=$((made + 1))
}
random() { openssl rand -hex 24; }

if [ ! -s ca.pem ] || [ ! -s ca-key.pem ]; then
    rm -f -- *.pem # signed by an authority that is gone
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days "$days" -subj "/CN=surescale pipeline" -addext basicConstraints=critical,CA:TRUE \
        -addext keyUsage=critical,keyCertSign -keyout ca-key.pem -out ca.pem 2> /dev/null
    chmod 400 ca-key.pem
    chmod 444 ca.pem
    made=$((made + 1))
fi

certify() { # NAME SANS
    [ ! -s "$1.pem" ] || [ ! -s "$1-key.pem" ] || return 0
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout "$1-key.pem" -out "$1.csr" 2> /dev/null
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days "$days" -out "$1.pem" 2> /dev/null \
        -extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$2")
    rm -f "$1.csr"
    chmod 444 "$1.pem" "$1-key.pem"
    rm -f "$1-keystore.pem"
    made=$((made + 1))
}
certify kafka DNS:kafka,DNS:localhost,IP:127.0.0.1
certify redis DNS:redis,DNS:localhost,IP:127.0.0.1
certify state "DNS:state,DNS:localhost,IP:127.0.0.1${STATE_HOST:+,DNS:$STATE_HOST}"
certify surescale-admin DNS:surescale-admin
make_file kafka-keystore.pem cat kafka-key.pem kafka.pem

for role in monitor spark agent rescaler state-service engine operator; do make_file "kafka-passwords/$role" random; done
make_file redis-password random
redis_users() {
    # Only the password's hash; the rights of docs/security.md.
    local hash
    hash=$(tr -d '\n' < redis-password | openssl dgst -sha256 -r | cut -d ' ' -f 1)
    echo "user default off"
    echo "user surescale on #$hash resetkeys ~surescale:* resetchannels -@all +@read +@write +@transaction +@connection" \
        "-@dangerous +eval +evalsha +script|load +script|exists +info +time"
}
[ redis-users.acl -nt redis-password ] || rm -f redis-users.acl
make_file redis-users.acl redis_users
make_file http-tokens random
operate_token() { echo "operator $(random)"; }
make_file operate-tokens operate_token
say "$made files made in $PWD; ca-key.pem signs certificates: move it to a safe place"
