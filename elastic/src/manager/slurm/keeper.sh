#!/bin/sh
# Holds this job's nodes for another job, and ends with that: MAIN is its number. The controller is asked every PAUSE
# seconds. One that does not answer may come back; a job that it does not know has ended.
main=MAIN
pause=PAUSE
trap 'exit 0' TERM
while :; do
    if state=$(squeue --noheader --jobs="$main" --states=all --format=%T 2>&1); then
        case $state in
            *RUNNING* | *SUSPENDED* | *STOPPED* | *SIGNALING* | *RESIZING*) ;;
            *) exit 0 ;;
        esac
    else
        case $state in
            *"Invalid job id"*) exit 0 ;;
        esac
    fi
    sleep "$pause" &
    wait $!
done
