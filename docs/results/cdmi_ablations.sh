#!/bin/sh
# The paper's ablations on the embedded forms, behind docs/results/cdmi-fcc-adbuy.md: sh docs/results/cdmi_ablations.sh
# Killed at any time, the same command goes on.
set -e
pfl() { .venv/bin/pfl-audit "$@"; }
work=${WORK:-build/cdmi-ablations}
forms=fixtures/forms

model() { # name, and options of train
    name=$1
    shift
    [ -f "$work/$name/training.json" ] || pfl train --data $forms --out "$work/$name" --learning-rate 2e-3 -q "$@"
}

attack() { # name of the audit, target, public model, and options of reconstruct
    audit=$1 attacked=$2 known=$3
    shift 3
    [ -f "$work/audits/$audit/results.json" ] || pfl reconstruct --model "$work/$attacked" \
        --public "$work/$known/best-loss" --forms $forms --out "$work/audits/$audit" --fail-on never -q "$@" || [ $? -eq 3 ]
}

for kind in layoutlm-unimodal bert-unimodal layoutlm-bimodal; do
    backbone=${kind%-*} modality=${kind#*-}
    model public-$kind --task mlm --part public --backbone $backbone --modality $modality --size tiny --epochs 60
    model mlm-$kind --task mlm --part private --backbone $backbone --modality $modality --epochs 60 --keep-every 15 \
        --from "$work/public-$kind/best-loss"
    attack mlm-$kind mlm-$kind/epoch-060 public-$kind
done
attack mlm-layoutlm-bimodal-noise mlm-layoutlm-bimodal/epoch-060 public-layoutlm-bimodal --visual-noise
for epoch in 015 030 045; do
    attack mlm-layoutlm-unimodal-$epoch mlm-layoutlm-unimodal/epoch-$epoch public-layoutlm-unimodal
done
model ee-bio --task ee-bio --part private --epochs 60 --from "$work/public-layoutlm-unimodal/best-loss"
attack ee-bio-128 ee-bio/best-precision public-layoutlm-unimodal --fields 40
attack ee-bio-512 ee-bio/best-precision public-layoutlm-unimodal --fields 40 --candidates 512
attack ee-bio-gradient ee-bio/best-precision public-layoutlm-unimodal --fields 40 \
    --set reconstruction.shortlist=gradient
attack ee-bio-tuned ee-bio/best-precision public-layoutlm-unimodal --fields 40 --tune
.venv/bin/python docs/results/cdmi_ablations_table.py "$work"
