/* SPDX-License-Identifier: MIT */
/* The storage check on file systems that are not here: statfs is replaced,
 * the links are real. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "contract_support.h"

/* What lies under a folder named "net" is of this type, the rest is ext4. */
static uint32_t net_type;

static int fake_statfs(const char *path, struct statfs *fs)
{
    char real[PATH_MAX];

    if (realpath(path, real) == NULL)
        return -1;
    memset(fs, 0, sizeof(*fs));
    /* signed and as wide as the kernel's word: CIFS comes out negative on
       32-bit systems */
    fs->f_type =
        (__typeof__(fs->f_type))(strstr(real, "/net") ? net_type : 0xEF53);
    return 0;
}

#define statfs(path, fs) fake_statfs(path, fs)
#include "storage.c"
#undef statfs

static int check(const char *path)
{
    return postbag__linux_storage_check(NULL, path);
}

static void make_folder(struct folder *f, const char *name)
{
    assert_int_equal(mkdir(in_folder(f, name), 0700), 0);
}

static void test_storage_network_types_are_refused(void **state)
{
    const uint32_t types[] = {0x6969, 0x517B, 0xFF534D42, 0xFE534D42,
        0x01021997, 0x73757245, 0x5346414F, 0x6B414653, 0x00C36400};
    size_t i;

    make_folder(*state, "net");
    for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        net_type = types[i];
        assert_int_equal(
            check(in_folder(*state, "net/app.db")), POSTBAG_ESTORAGE);
        assert_int_equal(check(in_folder(*state, "app.db")), POSTBAG_OK);
    }
}

static void test_storage_fuse_and_flash_types_are_fine(void **state)
{
    const uint32_t types[] = {0x65735546 /* FUSE */, 0x01021994 /* tmpfs */,
        0x24051905 /* UBIFS */, 0xF2F52010 /* F2FS */,
        0x794C7630 /* overlay */};
    size_t i;

    make_folder(*state, "net");
    for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        net_type = types[i];
        assert_int_equal(check(in_folder(*state, "net/app.db")), POSTBAG_OK);
    }
}

static void test_storage_links_are_followed(void **state)
{
    net_type = 0x6969;
    make_folder(*state, "net");
    make_folder(*state, "local");
    /* dangling, relative, and through another link */
    assert_int_equal(
        symlink("../net/app.db", in_folder(*state, "local/app.db")), 0);
    assert_int_equal(symlink("local/app.db", in_folder(*state, "twice.db")), 0);
    assert_int_equal(symlink("net", in_folder(*state, "folder")), 0);
    assert_int_equal(
        check(in_folder(*state, "local/app.db")), POSTBAG_ESTORAGE);
    assert_int_equal(check(in_folder(*state, "twice.db")), POSTBAG_ESTORAGE);
    assert_int_equal(
        check(in_folder(*state, "folder/app.db")), POSTBAG_ESTORAGE);
    write_file(in_folder(*state, "net/app.db"), "x");
    assert_int_equal(check(in_folder(*state, "twice.db")), POSTBAG_ESTORAGE);
}

static void test_storage_link_away_from_the_network_is_fine(void **state)
{
    char target[PATH_MAX];

    net_type = 0x6969;
    make_folder(*state, "net");
    (void)snprintf(target, sizeof(target), "%s", in_folder(*state, "app.db"));
    assert_int_equal(symlink(target, in_folder(*state, "net/link.db")), 0);
    assert_int_equal(check(in_folder(*state, "net/link.db")), POSTBAG_OK);
}

static void test_storage_links_in_a_circle_are_an_error(void **state)
{
    net_type = 0x6969;
    assert_int_equal(symlink("b", in_folder(*state, "a")), 0);
    assert_int_equal(symlink("a", in_folder(*state, "b")), 0);
    assert_int_equal(check(in_folder(*state, "a")), POSTBAG_EIO);
}

static void test_storage_plain_name_is_of_the_working_folder(void **state)
{
    char before[PATH_MAX];
    int in_net;
    int beside;

    net_type = 0x6969;
    make_folder(*state, "net");
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(in_folder(*state, "net")), 0);
    in_net = check("app.db");
    beside = check("../app.db");
    assert_int_equal(chdir(before), 0);
    assert_int_equal(in_net, POSTBAG_ESTORAGE);
    assert_int_equal(beside, POSTBAG_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_storage_network_types_are_refused),
        TEST_IN_FOLDER(test_storage_fuse_and_flash_types_are_fine),
        TEST_IN_FOLDER(test_storage_links_are_followed),
        TEST_IN_FOLDER(test_storage_link_away_from_the_network_is_fine),
        TEST_IN_FOLDER(test_storage_links_in_a_circle_are_an_error),
        TEST_IN_FOLDER(test_storage_plain_name_is_of_the_working_folder),
    };

    return cmocka_run_group_tests_name("linux storage", tests, NULL, NULL);
}
