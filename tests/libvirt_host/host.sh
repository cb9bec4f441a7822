#!/bin/sh
# A host that runs libvirt, for a test: a libvirtd of its own with private folders, in network, process and
# mount namespaces of its own, which take everything with them.
#
#   host.sh DIR         in the caller's namespaces
#   host.sh DIR inside  in its own
#
# It prints "ready" and the process id of its first process as the caller sees it. When its input ends,
# because the host was dropped or the test process is gone, the kernel kills what runs inside, DIR is
# removed, and it ends. Inside, 192.168.150.1 is the host's address on the guests' network, and
# 192.168.150.250 one that no test allows anything to; both answer HTTP on port 8099.
set -eu

dir=$1
if [ "${2:-}" != inside ]; then
    # The input and the output are the inner one's.
    unshare --net --pid --mount --fork --kill-child=KILL --mount-proc sh "$0" "$dir" inside || true
    rm -rf "$dir"
    exit
fi

exec 3>"$dir/host.log"
# What is written at fixed places is not the machine's.
mkdir -p "$dir/lib" "$dir/log/qemu" "$dir/etc/qemu/networks" "$dir/pool" "$dir/www"
mkdir -p /etc/libvirt /var/lib/libvirt /var/log/libvirt /var/cache/libvirt
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/cache/libvirt
mkdir -p /run/sshd /run/libvirt
mount --bind "$dir/etc" /etc/libvirt
mount --bind "$dir/lib" /var/lib/libvirt
mount --bind "$dir/log" /var/log/libvirt
# A device that is there proves nothing, and that is what a host's answer is to be tried with.
if [ -e /dev/kvm ]; then
    mount --bind /dev/null /dev/kvm
fi
# The account that Debian's libvirtd wants to exist, whatever its configuration says.
cp /etc/passwd "$dir/passwd"
cp /etc/group "$dir/group"
grep -q '^libvirt-qemu:' "$dir/passwd" || echo 'libvirt-qemu:x:64055:64055::/nonexistent:/bin/false' >>"$dir/passwd"
for name in libvirt-qemu kvm; do
    grep -q "^$name:" "$dir/group" || echo "$name:x:64055:" >>"$dir/group"
done
mount --bind "$dir/passwd" /etc/passwd
mount --bind "$dir/group" /etc/group
# Its network devices, not the machine's.
mount -t sysfs sysfs /sys
ip link set lo up

# QEMU runs as root, since its files are where no other account can enter; there is no systemd to ask for
# control groups. The host's UUID is the test's: without one libvirtd makes up another at each start.
cat >/etc/libvirt/qemu.conf <<'CONF'
user = "root"
group = "root"
remember_owner = 0
security_driver = "none"
cgroup_controllers = []
stdio_handler = "file"
CONF
cat >/etc/libvirt/libvirtd.conf <<CONF
auth_unix_ro = "none"
auth_unix_rw = "none"
host_uuid = "$(cat /proc/sys/kernel/random/uuid)"
CONF
cat >"$dir/network.xml" <<'XML'
<network>
  <name>proxies</name>
  <bridge name='virbr7' stp='off' delay='0'/>
  <ip address='192.168.150.1' netmask='255.255.255.0'>
    <dhcp><range start='192.168.150.10' end='192.168.150.99'/></dhcp>
  </ip>
</network>
XML

setpriv --pdeathsig KILL libvirtd >"$dir/libvirtd.out" 2>&1 </dev/null 3>&- &
tries=0
until virsh -q -c qemu:///system uri >&3 2>&3; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ]
    sleep 0.1
done
virsh -q -c qemu:///system net-define "$dir/network.xml" >&3 2>&3
virsh -q -c qemu:///system net-start proxies >&3 2>&3
virsh -q -c qemu:///system pool-define-as default dir --target "$dir/pool" >&3 2>&3
virsh -q -c qemu:///system pool-start default >&3 2>&3
ip address add 192.168.150.250/24 dev virbr7
echo 'hello from the host' >"$dir/www/hello"
setpriv --pdeathsig KILL python3 -m http.server 8099 --bind 192.168.150.1 --directory "$dir/www" \
    >"$dir/http.log" 2>&1 </dev/null 3>&- &

# Nothing comes; the end does. Whoever is first inside also has to see off what daemons leave behind, which a
# shell does while it waits and not while it reads: libvirtd waits for each QEMU it asks what it can do.
exec 4<&0
echo ready
cat <&4 >/dev/null &
wait $!
