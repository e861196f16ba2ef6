#!/bin/bash
# Workers of a becalm job as a Slurm array: `sbatch --export=ALL,JOB=/shared/job deploy/slurm.sh`.
# Make the job before, on a disk that all nodes share. Nodes may come and go: the tasks of later arrays go on with the chunks that are left.
#SBATCH --job-name=becalm
#SBATCH --array=0-15
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=16G
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@60
set -euo pipefail
: "${JOB:?name the folder of the job: sbatch --export=ALL,JOB=/shared/job deploy/slurm.sh}"

# A name for each node and task, so that a node with wrong results is found and left out. `exec` hands the signal of Slurm on, and the
# worker gives its chunk back.
exec becalm job work "$JOB" --name "${SLURMD_NODENAME:-node}-${SLURM_ARRAY_TASK_ID:-0}" --threads "${SLURM_CPUS_PER_TASK:-0}"
