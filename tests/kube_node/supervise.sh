#!/bin/sh
# Owns the processes of a test's cluster, so that they end with the test however it ends:
#
#   supervise.sh DIR              in the caller's namespaces
#   supervise.sh DIR node CGROUP  in network, process and mount namespaces of its own, which take everything with them
#
# It reads one command a line and answers each with a line:
#
#   start NAME          runs DIR/NAME.sh with its output in DIR/NAME.log
#   signal NAME SIGNAL  sends a signal
#   stop NAME           kills it, and answers when it is gone
#
# When its input ends, because the cluster was dropped or the test process is gone, it kills everything,
# removes DIR, and ends.
set -u

dir=$1
role=${2:-}

if [ "$role" = node ]; then
    # The input and the output are the inner one's; when that ends the kernel kills what it left.
    unshare --net --pid --mount --fork --kill-child=KILL --mount-proc sh "$0" "$dir" enter "$3"
    find /sys/fs/cgroup -depth -type d -path "*/$3*" -exec rmdir {} \; 2>/dev/null
    rm -rf "$dir"
    exit
fi

cd "$dir" || exit 1
mkdir -p data
if [ "$role" = enter ]; then
    # What it writes is in memory, and what it writes at fixed places is not the machine's.
    for place in /run /var/log "$dir/data"; do
        mount -t tmpfs tmpfs "$place" || exit 1
    done
    # The root of every hierarchy of control groups is a group of its own. Version 1 has a hierarchy
    # for each controller.
    hierarchies=/sys/fs/cgroup
    [ -e /sys/fs/cgroup/cgroup.procs ] || hierarchies=$(echo /sys/fs/cgroup/*)
    for hierarchy in $hierarchies; do
        [ ! -L "$hierarchy" ] || continue
        mkdir "$hierarchy/$3" || exit 1
        for file in cpuset.cpus cpuset.mems; do
            # A new group of version 1 has neither, and takes no process before it has.
            [ ! -e "$hierarchy/$file" ] || cat "$hierarchy/$file" >"$hierarchy/$3/$file"
        done
        echo $$ >"$hierarchy/$3/cgroup.procs" || exit 1
        mount --bind "$hierarchy/$3" "$hierarchy" || exit 1
    done
    exec unshare --cgroup sh "$0" "$dir" inside
fi
if [ "$role" = inside ] && [ -e /sys/fs/cgroup/cgroup.procs ]; then
    # In version 2 a group with groups below it holds no process itself.
    mkdir /sys/fs/cgroup/init && echo $$ >/sys/fs/cgroup/init/cgroup.procs || exit 1
fi
echo ready

names=
while read -r verb name signal; do
    case $verb in
    start)
        setpriv --pdeathsig KILL sh "$dir/$name.sh" >"$dir/$name.log" 2>&1 </dev/null &
        echo $! >"$dir/$name.pid"
        names="$names $name"
        ;;
    signal)
        kill "-$signal" "$(cat "$dir/$name.pid")"
        ;;
    stop)
        kill -KILL "$(cat "$dir/$name.pid")"
        wait "$(cat "$dir/$name.pid")"
        ;;
    esac 2>>"$dir/supervise.log"
    echo done
done

for name in $names; do
    kill -KILL "$(cat "$dir/$name.pid")"
done 2>/dev/null
wait
if [ "$role" != inside ]; then
    cd / && rm -rf "$dir"
fi
