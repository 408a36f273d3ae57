#!/usr/bin/env bash
# Make every credential of a cluster, once, and a kustomization of the Secrets that hold them.
#
#     deploy/k8s/credentials.sh FOLDER NAMESPACE/JOB ...
#     kubectl apply -k FOLDER
#
# PYTHON names an interpreter that has Everstep, if python3 has not.
# What is there is kept: to admit one more job, repeat it with all jobs, apply, and have the servers
# read their accounts again (docs/deploying.md). FOLDER is the only copy of the authority's key.
set -euo pipefail
umask 077
folder=${1:?usage: credentials.sh FOLDER NAMESPACE/JOB ...}
jobs=("${@:2}")
days=825

mkdir -p "$folder"
"${PYTHON:-python3}" -m everstep_bus.nats.server --accounts-only --directory "$folder" --credentials "$folder" \
    "${jobs[@]/#/--job=}"
cd "$folder"

if [[ ! -e ca.crt ]]; then
    openssl req -x509 -newkey ed25519 -noenc -keyout ca.key -out ca.crt -days 3650 \
        -subj "/CN=everstep bus" -addext "keyUsage=critical,keyCertSign,cRLSign"
fi
if [[ ! -e tls.crt ]]; then
    names="DNS:everstep-nats.everstep.svc,DNS:*.everstep-nats-peers.everstep.svc"
    openssl req -newkey ed25519 -noenc -keyout tls.key -out tls.csr -subj "/CN=everstep-nats"
    openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -days "$days" -out tls.crt -extfile <(
        echo "subjectAltName=$names${EVERSTEP_EXTRA_NAMES:+,$EVERSTEP_EXTRA_NAMES}"
        echo "extendedKeyUsage=serverAuth,clientAuth"
        echo "authorityKeyIdentifier=keyid"
    )
    rm tls.csr
fi

secret() {  # NAMESPACE NAME FILE...
    echo "  - namespace: $1"
    echo "    name: $2"
    echo "    files: [$(IFS=,; echo "${*:3}")]"
}
{
    echo "# Made by credentials.sh."
    echo "apiVersion: kustomize.config.k8s.io/v1beta1"
    echo "kind: Kustomization"
    echo "generatorOptions: {disableNameSuffixHash: true}"
    echo "secretGenerator:"
    secret everstep everstep-nats accounts.json tls.crt tls.key ca.crt
    secret everstep everstep-node-watcher ca.crt \
        everstep-node_watcher.nk everstep-system.nk everstep-canary.nk
    secret everstep everstep-adjudicator ca.crt everstep-adjudicator.nk
    secret everstep everstep-rescaler ca.crt everstep-rescaler.nk
    secret everstep everstep-checkpoint-indexer ca.crt everstep-checkpoint_indexer.nk
    for job in "${jobs[@]}"; do
        secret "${job%/*}" "${job#*/}-bus" ca.crt "agent.nk=everstep-agent.${job%/*}.${job#*/}.nk"
    done
} > kustomization.yaml
