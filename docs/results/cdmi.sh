#!/bin/sh
# Trains and attacks everything behind docs/results/cdmi-fcc-adbuy.md: sh docs/results/cdmi.sh FCC_ADBUY
# Killed at any time, the same command goes on.
set -e
pfl() { .venv/bin/pfl-audit "$@"; }
work=build/cdmi
[ -f $work/forms/forms.jsonl ] || .venv/bin/python docs/results/cdmi_forms.py "$1" $work/forms

model() { # name, and options of train
    name=$1
    shift
    [ -f "$work/$name/training.json" ] || pfl train --data $work/forms --out "$work/$name" --epochs 40 \
        --learning-rate 2e-3 --max-tokens 192 -q "$@"
}

attack() { # name of the audit, target, public model, and options of reconstruct
    audit=$1 attacked=$2 known=$3
    shift 3
    [ -f "$work/audits/$audit/results.json" ] || pfl reconstruct --model "$work/$attacked" --public "$work/$known" \
        --forms $work/forms --store $work/records.sqlite --out "$work/audits/$audit" --fail-on never -q "$@" || [ $? -eq 3 ]
}

for backbone in layoutlm bros; do
    for modality in unimodal bimodal; do
        public=public-$backbone-$modality
        model $public --task mlm --part public --backbone $backbone --modality $modality --size tiny --vocabulary 2000
        for task in mlm ee-bio; do
            target=$task-$backbone-$modality
            model $target --task $task --part private --backbone $backbone --modality $modality \
                --from $work/$public/best-loss
            for criterion in precision loss; do
                if [ $task = mlm ]; then
                    attack $target-$criterion $target/best-$criterion $public/best-loss
                else # a pass of the target for every candidate: fewer of them, fewer fields
                    attack $target-$criterion $target/best-$criterion $public/best-loss --candidates 32 --fields 40
                fi
            done
        done
    done
done
.venv/bin/python docs/results/cdmi_table.py $work
