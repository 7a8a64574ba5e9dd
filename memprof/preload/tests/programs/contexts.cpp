// Allocations in every place that a C++ program has for them. Ends with "all right"; errors are
// printed.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>
#include <map>
#include <new>
#include <pthread.h>
#include <setjmp.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static int wrong;

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            wrong++;                                                                     \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                      \
        }                                                                                \
    } while (0)

static volatile size_t impossible = SIZE_MAX / 2;
static int handled;

static void handler()
{
    if (++handled == 3)
        std::set_new_handler(nullptr);
}

static void operators()
{
    struct alignas(256) Wide {
        char bytes[300];
    };
    int *one = new int(7);
    CHECK(*one == 7);
    delete one;
    delete[] new char[1000];
    Wide *wide = new Wide;
    CHECK((uintptr_t) wide % 256 == 0);
    delete wide;
    Wide *many = new Wide[5];
    CHECK((uintptr_t) many % 256 == 0);
    delete[] many;
    CHECK(new (std::nothrow) char[impossible] == nullptr);
    CHECK(operator new(impossible, std::align_val_t(64), std::nothrow) == nullptr);
    bool caught = false;
    try {
        ::operator new(impossible);
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    CHECK(caught);
    caught = false;
    std::set_new_handler(handler);
    try {
        ::operator delete[](::operator new[](impossible, std::align_val_t(128)), std::align_val_t(128));
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    CHECK(caught && handled == 3);
    void *none = ::operator new(0);
    CHECK(none != nullptr);
    ::operator delete(none, (size_t) 0);
}

struct Deep {
    std::string text = std::string(200, 'x');
    ~Deep() { text += "y"; }
};

static void exceptions(int depth)
{
    Deep deep;
    if (depth == 0)
        throw std::vector<int>(5000, 42);
    exceptions(depth - 1);
}

static void families()
{
    for (size_t size = 0; size < 5000; size += 37) {
        char *block = (char *) malloc(size);
        size_t usable = malloc_usable_size(block);
        CHECK(usable >= size);
        memset(block, 0x5a, usable);
        block = (char *) realloc(block, size * 3 + 1);
        for (size_t at = 0; at < size; at++)
            CHECK(block[at] == 0x5a);
        free(block);
        char *zero = (char *) calloc(size, 3);
        for (size_t at = 0; at < size * 3; at++)
            CHECK(zero[at] == 0);
        memset(zero, 1, size * 3);
        free(zero);
    }
    for (size_t alignment = 8; alignment <= 1 << 21; alignment *= 2) {
        void *block = nullptr;
        CHECK(posix_memalign(&block, alignment, 100) == 0 && (uintptr_t) block % alignment == 0);
        free(block);
        block = aligned_alloc(alignment, alignment * 2);
        CHECK((uintptr_t) block % alignment == 0);
        free(block);
        block = memalign(alignment, 5);
        CHECK((uintptr_t) block % alignment == 0);
        CHECK((block = realloc(block, 100000)) != nullptr);
        free(block);
    }
    errno = 0;
    CHECK(malloc(impossible * 2) == nullptr && errno == ENOMEM);
    errno = 0;
    CHECK(calloc(impossible, 16) == nullptr && errno == ENOMEM);
    errno = 0;
    CHECK(reallocarray(nullptr, impossible, 16) == nullptr && errno == ENOMEM);
    char *kept = strdup("kept");
    CHECK(realloc(kept, impossible * 2) == nullptr && strcmp(kept, "kept") == 0);
    errno = 99;
    free(kept);
    free(nullptr);
    CHECK(errno == 99);
    CHECK(malloc_usable_size(nullptr) == 0);
    void *(*inner)(size_t) = (void *(*) (size_t)) dlsym(RTLD_NEXT, "__libc_malloc");
    if (inner) {
        char *block = (char *) inner(100);
        memset(block, 0xff, malloc_usable_size(block));
        block = (char *) realloc(block, 300);
        CHECK((unsigned char) block[99] == 0xff);
        free(block);
        free(inner(10));
    }
    char *big = (char *) malloc(40 << 20);
    memset(big, 1, 40 << 20);
    big = (char *) realloc(big, 80 << 20);
    CHECK(big[(40 << 20) - 1] == 1);
    big = (char *) realloc(big, 10);
    CHECK(big[9] == 1);
    free(big);
}

static std::atomic<char *> belt[256];

static void exchange(unsigned seed)
{
    std::map<unsigned, std::string> own;
    for (int round = 0; round < 50000; round++) {
        seed = seed * 1664525 + 1013904223;
        size_t size = (seed >> 8) % 3000 + 16;
        char *block = (char *) malloc(size);
        memcpy(block, &size, sizeof size);
        block[size - 1] = 77;
        char *other = belt[seed % 256].exchange(block);
        if (other) {
            size_t there;
            memcpy(&there, other, sizeof there);
            CHECK(other[there - 1] == 77);
            free(other);
        }
        if (round % 64 == 0)
            own[seed % 32] = std::string(seed % 500, 'z');
    }
}

struct AtEnd {
    std::vector<std::string> texts;
    ~AtEnd()
    {
        texts.emplace_back(3000, 'q');
        free(malloc(100));
    }
};

static thread_local AtEnd of_thread;
static pthread_key_t late;

static void late_destructor(void *value)
{
    // Runs several times: also after the tool has released its own counters.
    free(value);
    static thread_local int times;
    if (++times < 4)
        pthread_setspecific(late, malloc(500));
}

static void threads()
{
    pthread_key_create(&late, late_destructor);
    for (int wave = 0; wave < 3; wave++) {
        std::vector<std::thread> running;
        for (unsigned seed = 0; seed < 6; seed++)
            running.emplace_back([seed] {
                of_thread.texts.emplace_back(1000, 'p');
                pthread_setspecific(late, malloc(10));
                exchange(seed + 1);
            });
        for (auto &thread : running)
            thread.join();
    }
    for (auto &place : belt)
        free(place.exchange(nullptr));
}

static std::atomic<bool> forking{true};

static void forks()
{
    std::vector<std::thread> busy;
    for (unsigned seed = 0; seed < 2; seed++)
        busy.emplace_back([seed] {
            for (unsigned round = 0; forking; round++)
                free(malloc((round * 31 + seed) % 70000));
        });
    for (int child = 0; child < 20; child++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (int round = 0; round < 500; round++)
                delete[] new char[(round * 131) % 40000];
            std::thread([] { exchange(9); }).join();
            _exit(wrong ? 1 : 0);
        }
        int status = -1;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    forking = false;
    for (auto &thread : busy)
        thread.join();
}

static jmp_buf back;

static void jumps()
{
    static char *volatile block;
    for (int round = 0; round < 100; round++) {
        if (setjmp(back) == 0) {
            block = (char *) malloc(100);
            longjmp(back, 1);
        }
        free(block);
    }
}

static void at_signal(int)
{
    // Not allowed by the standard; programs do it where they know that no allocation is
    // interrupted.
    free(malloc(2000));
}

static void at_exit()
{
    std::string text(10000, 'e');
    if (text.size() == 10000 && !wrong)
        puts("all right");
    fflush(stdout);
}

int main()
{
    atexit(at_exit);
    operators();
    for (int round = 0; round < 100; round++) {
        try {
            exceptions(20);
        } catch (const std::vector<int> &thrown) {
            CHECK(thrown.size() == 5000 && thrown[4999] == 42);
        }
    }
    families();
    threads();
    forks();
    jumps();
    signal(SIGUSR1, at_signal);
    for (int round = 0; round < 1000; round++)
        raise(SIGUSR1);
    of_thread.texts.emplace_back(100, 'm');
    return wrong ? 1 : 0;
}
