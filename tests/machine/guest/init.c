/* The first process of an emulated machine: loads the drivers, lays memory over the host's file
 * system so that nothing is ever written there, runs one command and reports its end to the host.
 *
 * All messages to the host go through one port, in frames: a letter, the length as four bytes
 * with the lowest first, the content. 'r' ready; 'o' and 'e' what the command wrote to its two
 * streams; 'x' its exit status and 'k' the signal that killed it, as text, 'f' why it could not be
 * started. Linked statically: it runs before there is anything to link with. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT "quo"
#define HOST_NAME "machine"

static int port = -1;

static void
off(void)
{
    sync();
    reboot(RB_POWER_OFF);
    for (;;) pause();
}

static void
write_all(const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(port, bytes, length);
        if (written < 0 && EINTR == errno) continue;
        if (written <= 0) off(); /* The host is gone. */
        bytes += written;
        length -= (size_t)written;
    }
}

static void
read_all(char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t got = read(port, bytes, length);
        if (got < 0 && EINTR == errno) continue;
        if (got <= 0) off();
        bytes += got;
        length -= (size_t)got;
    }
}

static void
tell(char kind, const char *bytes, size_t length)
{
    char head[5] = {kind, (char)length, (char)(length >> 8), (char)(length >> 16),
                    (char)(length >> 24)};
    write_all(head, sizeof(head));
    write_all(bytes, length);
}

/* Fails: the reason goes to the console, and to the host if it listens already. */
static void
fail(const char *format, ...)
{
    char reason[1024];
    int error = errno;
    va_list values;
    va_start(values, format);
    int length = vsnprintf(reason, sizeof(reason), format, values);
    va_end(values);
    snprintf(reason + length, sizeof(reason) - (size_t)length, ": %s", strerror(error));
    printf("init: %s\n", reason);
    if (port >= 0) tell('f', reason, strlen(reason));
    off();
}

static void
attach(const char *source, const char *target, const char *kind, unsigned long flags,
       const char *options)
{
    char folder[4096];
    snprintf(folder, sizeof(folder), "%s/", target);
    for (char *end = folder; NULL != (end = strchr(end + 1, '/'));) {
        *end = '\0';
        if (0 != mkdir(folder, 0755) && EEXIST != errno) fail("making %s", folder);
        *end = '/';
    }
    if (0 != mount(source, target, kind, flags, options)) fail("mounting %s on %s", kind, target);
}

/* Loads drivers in the order of their names, which the host chose to put dependencies first. */
static void
load_drivers(void)
{
    struct dirent **entries;
    int count = scandir("/drivers", &entries, NULL, alphasort);
    for (int i = 0; i < count; ++i) {
        char path[512];
        if ('.' == entries[i]->d_name[0]) continue;
        snprintf(path, sizeof(path), "/drivers/%s", entries[i]->d_name);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0) fail("opening %s", path);
        if (0 != syscall(SYS_finit_module, file, "", 0) && EEXIST != errno) {
            fail("loading %s", path);
        }
        close(file);
    }
}

static int
try_port(void)
{
    int found = -1;
    DIR *ports = opendir("/sys/class/virtio-ports");
    if (NULL == ports) return -1;
    for (struct dirent *entry; found < 0 && NULL != (entry = readdir(ports));) {
        char path[512], name[64] = "";
        snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name", entry->d_name);
        FILE *file = fopen(path, "r");
        if (NULL == file) continue;
        if (NULL != fgets(name, sizeof(name), file) && 0 == strcmp(name, PORT "\n")) {
            snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
            found = open(path, O_RDWR | O_CLOEXEC);
        }
        fclose(file);
    }
    closedir(ports);
    return found;
}

static void
open_port(void)
{
    for (int tries = 0; tries < 20000 && (port = try_port()) < 0; ++tries) {
        /* The driver finds its ports asynchronously, and no daemon exists to report them. */
        // Sleeps: between two looks for the port.
        usleep(1000);
    }
    if (port < 0) fail("finding the port to the host");
}

/* Makes the host's files the root: read from the host, written in memory. */
static void
enter_root(void)
{
    attach("root", "/host", "9p", MS_RDONLY,
           "trans=virtio,version=9p2000.L,cache=loose,msize=512000");
    attach("changes", "/changes", "tmpfs", 0, "mode=0755");
    if (0 != mkdir("/changes/files", 0755) || 0 != mkdir("/changes/work", 0755)) {
        fail("making the folder for changes");
    }
    attach("root", "/new", "overlay", 0,
           "lowerdir=/host,upperdir=/changes/files,workdir=/changes/work");
    if (0 != chdir("/new") || 0 != mount(".", "/", NULL, MS_MOVE, NULL) || 0 != chroot(".") ||
        0 != chdir("/")) {
        fail("changing the root");
    }
    attach("proc", "/proc", "proc", 0, NULL);
    attach("sys", "/sys", "sysfs", 0, NULL);
    attach("dev", "/dev", "devtmpfs", 0, NULL);
    attach("pts", "/dev/pts", "devpts", 0, "gid=5,mode=620,ptmxmode=666");
    attach("shm", "/dev/shm", "tmpfs", 0, "mode=1777");
    attach("run", "/run", "tmpfs", 0, "mode=0755");
    attach("cgroup", "/sys/fs/cgroup", "cgroup2", 0, NULL);
    if (0 != symlink("/proc/self/fd", "/dev/fd") || 0 != symlink("fd/0", "/dev/stdin") ||
        0 != symlink("fd/1", "/dev/stdout") || 0 != symlink("fd/2", "/dev/stderr")) {
        fail("naming the standard streams");
    }
}

static void
name_itself(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (any < 0 || 0 != ioctl(any, SIOCSIFFLAGS, &request)) fail("starting the loopback device");
    close(any);
    if (0 != sethostname(HOST_NAME, strlen(HOST_NAME))) fail("naming the machine");
    FILE *hosts = fopen("/etc/hosts", "w");
    if (NULL == hosts) fail("writing /etc/hosts");
    fprintf(hosts, "127.0.0.1 localhost " HOST_NAME "\n");
    fclose(hosts);
}

/* The command as the host sends it: the length as four bytes, then strings that each end with a zero
 * byte. User, group, working folder, writable folder or nothing, number of arguments, arguments,
 * environment. */
struct command {
    uid_t user;
    gid_t group;
    const char *folder;
    const char *results;
    char **arguments;
    char **environment;
};

static struct command
read_command(void)
{
    unsigned char head[4];
    read_all((char *)head, sizeof(head));
    size_t have = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
    size_t count = 0, next = 5;
    char *text = malloc(have + 1), **strings = calloc(have + 2, sizeof(char *));
    if (NULL == text || NULL == strings) fail("reading the command");
    read_all(text, have);
    text[have] = '\0';
    for (char *at = text; at < text + have; at += strlen(at) + 1) strings[count++] = at;
    size_t arguments = count < 5 ? 0 : strtoul(strings[4], NULL, 10);
    if (0 == arguments || next + arguments > count) {
        errno = EINVAL;
        fail("reading the command");
    }
    struct command command = {
        .user = (uid_t)strtoul(strings[0], NULL, 10),
        .group = (gid_t)strtoul(strings[1], NULL, 10),
        .folder = strings[2],
        .results = strings[3],
        .arguments = calloc(arguments + 1, sizeof(char *)),
        .environment = strings + next + arguments,
    };
    if (NULL == command.arguments) fail("reading the command");
    memcpy(command.arguments, strings + next, arguments * sizeof(char *));
    return command;
}

static void
become(const struct command *command, int output, int complaints, int trouble)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int nothing = open("/dev/null", O_RDONLY);
    const char *action = "connecting streams";
    int bad = setsid() < 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(output, 1) < 0 ||
              dup2(complaints, 2) < 0;
    if (nothing > 2) close(nothing);
    if (!bad && (0 != geteuid() || 0 != command->user)) {
        action = "changing the user";
        bad = 0 != setgroups(1, &command->group) || 0 != setgid(command->group) ||
              0 != setuid(command->user);
    }
    if (!bad) {
        action = command->folder;
        bad = 0 != chdir(command->folder);
    }
    if (!bad) {
        action = command->arguments[0];
        environ = command->environment;
        execvp(command->arguments[0], command->arguments);
    }
    dprintf(trouble, "%s: %s", action, strerror(errno));
    _exit(127);
}

/* Passes on what can be read; returns false at the end of the stream. */
static int
pass_on(int from, char kind)
{
    char bytes[65536];
    ssize_t length = read(from, bytes, sizeof(bytes));
    if (length > 0) tell(kind, bytes, (size_t)length);
    return length > 0 || (length < 0 && (EAGAIN == errno || EINTR == errno));
}

/* Reaps ended processes, as the first process must; returns true if the command is among them. */
static int
bury(pid_t command, int *status)
{
    int ended = 0, any;
    for (pid_t pid; (pid = waitpid(-1, &any, WNOHANG)) > 0;) {
        if (pid == command) {
            ended = 1;
            *status = any;
        }
    }
    return ended;
}

static void
run(const struct command *command)
{
    int output[2], complaints[2], trouble[2], status = 0;
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    int signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0 || 0 != pipe2(output, O_CLOEXEC) || 0 != pipe2(complaints, O_CLOEXEC) ||
        0 != pipe2(trouble, O_CLOEXEC)) {
        fail("making pipes");
    }
    pid_t child = fork();
    if (child < 0) fail("starting the command");
    if (0 == child) become(command, output[1], complaints[1], trouble[1]);
    close(output[1]);
    close(complaints[1]);
    close(trouble[1]);
    char reason[512];
    ssize_t length = read(trouble[0], reason, sizeof(reason));
    if (length > 0) {
        tell('f', reason, (size_t)length);
        off();
    }
    fcntl(output[0], F_SETFL, O_NONBLOCK);
    fcntl(complaints[0], F_SETFL, O_NONBLOCK);
    struct pollfd watched[4] = {{signals, POLLIN, 0},
                                {output[0], POLLIN, 0},
                                {complaints[0], POLLIN, 0},
                                {port, 0, 0}};
    for (int ended = 0; !ended;) {
        if (poll(watched, 4, -1) < 0 && EINTR != errno) fail("watching the command");
        if (watched[0].revents) {
            struct signalfd_siginfo ignored;
            while (read(signals, &ignored, sizeof(ignored)) > 0) {
            }
            ended = bury(child, &status);
        }
        if (watched[1].revents && !pass_on(output[0], 'o')) watched[1].fd = -1;
        if (watched[2].revents && !pass_on(complaints[0], 'e')) watched[2].fd = -1;
        if (watched[3].revents & (POLLHUP | POLLERR)) off(); /* The host is gone. */
    }
    /* What the command wrote before it ended: one read takes all that a pipe holds. A process that
     * it left behind may keep writing, which is ignored. */
    if (watched[1].fd >= 0) pass_on(output[0], 'o');
    if (watched[2].fd >= 0) pass_on(complaints[0], 'e');
    char number[16];
    int killed = WIFSIGNALED(status);
    snprintf(number, sizeof(number), "%d", killed ? WTERMSIG(status) : WEXITSTATUS(status));
    sync(); /* The host ends the machine when it gets this message. */
    tell(killed ? 'k' : 'x', number, strlen(number));
}

int
main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    attach("sys", "/sys", "sysfs", 0, NULL);
    attach("dev", "/dev", "devtmpfs", 0, NULL);
    load_drivers();
    open_port();
    enter_root();
    name_itself();
    tell('r', "", 0);
    struct command command = read_command();
    if ('\0' != command.results[0]) {
        attach("results", command.results, "9p", 0,
               "trans=virtio,version=9p2000.L,cache=none,msize=512000");
    }
    run(&command);
    off();
}
