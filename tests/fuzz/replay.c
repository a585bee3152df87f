/* Runs a fuzz target over the files named, or over every file of the folders named. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *f = fopen(path, "re");
    size_t n;

    if (!f)
        return -1;
    n = fread(data, 1, sizeof(data), f);
    (void)fclose(f);
    (void)LLVMFuzzerTestOneInput(data, n);
    return 0;
}

static int run_folder(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    char file[4096];
    int n = 0;

    if (!d)
        return -1;
    while ((e = readdir(d))) {
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
        if (run_file(file) == 0)
            n++;
    }
    (void)closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    int n = 0;

    for (int i = 1; i < argc; i++) {
        struct stat st;

        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
            n += run_folder(argv[i]);
        else
            n += run_file(argv[i]) == 0;
    }
    printf("%d inputs\n", n);
    return n > 0 ? 0 : 1; /* an empty corpus proves nothing */
}
