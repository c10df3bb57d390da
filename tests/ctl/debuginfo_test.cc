// profctl debuginfo against a server of Python with the paths of debuginfod, on loopback.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectors/files/debug_file_places.h"
#include "collectors/sandbox/spawn.h"
#include "ctl/commands/debug_cache.h"
#include "ctl/commands/debuginfod.h"
#include "ctl/sources/file_reader.h"
#include "formats/profile/pprof_writer.h"
#include "tests/ctl/ran.h"
#include "tests/formats/readers.h"
#include "tests/formats/symbols/built_code.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Arguments = std::vector<std::string>;

// Prints its port. It does not answer for a build id that starts with 0a0a.
constexpr const char* kServer = R"(
import http.server, sys, time
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/buildid/0a0a"): time.sleep(60)
        super().do_GET()
    def log_message(self, *arguments): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
)";

// Serves a directory until it is destroyed.
class DebuginfodServer {
 public:
  explicit DebuginfodServer(const fs::path& directory) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    const UniqueFd read_end(ends[0]);
    const UniqueFd write_end(ends[1]);
    process_ = ::fork();
    if (process_ == 0) {
      if (::dup2(write_end.get(), STDOUT_FILENO) < 0 || ::chdir(directory.c_str()) != 0) ::_exit(1);
      ::execlp("python3", "python3", "-c", kServer, static_cast<char*>(nullptr));
      ::_exit(1);
    }
    char text[16] = {};
    for (std::size_t i = 0; i < sizeof text - 1; ++i) {
      if (::read(read_end.get(), text + i, 1) != 1 || text[i] == '\n') break;
    }
    url_ = "http://127.0.0.1:" + std::to_string(std::atoi(text));
  }
  DebuginfodServer(const DebuginfodServer&) = delete;
  DebuginfodServer& operator=(const DebuginfodServer&) = delete;
  ~DebuginfodServer() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  pid_t process_ = -1;
  std::string url_;
};

class DebuginfoTest : public testing::Test {
 protected:
  DebuginfoTest() {
    fs::create_directories(cache());
    fs::create_directories(served() / "buildid");
    ::setenv("DEBUGINFOD_CACHE_PATH", built_.path("client").c_str(), 1);
    ::unsetenv("DEBUGINFOD_URLS");
  }
  ~DebuginfoTest() override { ::unsetenv("DEBUGINFOD_CACHE_PATH"); }

  [[nodiscard]] fs::path cache() const { return built_.path("cache"); }
  [[nodiscard]] fs::path served() const { return built_.path("served"); }
  [[nodiscard]] fs::path stored(const std::string& id) const {
    return cache() / ".build-id" / id.substr(0, 2) / (id.substr(2) + ".debug");
  }

  // The server has a program with the build id `real` under `id`.
  void serve(const std::string& id, const std::string& real) {
    const std::string program = built_.build("program-" + id, "int main(void) { return 0; }",
                                             "gcc -g -Wl,--build-id=0x" + real);
    fs::create_directories(served() / "buildid" / id);
    fs::copy_file(program, served() / "buildid" / id / "debuginfo");
  }
  void serve(const std::string& id) { serve(id, id); }

  // A profile with samples without lines in files of these build ids.
  [[nodiscard]] std::string profile_of(const std::vector<std::string>& ids) const {
    PprofProfile profile{{{"samples", "count"}}};
    std::int64_t samples = 100;
    for (const std::string& id : ids) {
      const std::uint32_t mapping = profile.add_mapping(
          {.file = profile.add_text("/opt/" + id), .build_id = profile.add_text(id)});
      const std::uint32_t location = profile.add_location({.address = 1, .mapping = mapping}, {});
      profile.add_sample(
          {.labels = profile.add_labels({}), .stack = profile.add_stack({&location, 1})},
          std::vector{--samples});
    }
    const std::string path = built_.path("profile.pb.gz");
    std::ofstream(path, std::ios::binary) << encode_pprof_gzip(profile);
    return path;
  }

  Ran debuginfo(const std::vector<std::string>& ids, const Arguments& more) const {
    Arguments arguments{"debuginfo", more.front(), "-i", profile_of(ids), "--cache", cache()};
    arguments.insert(arguments.end(), more.begin() + 1, more.end());
    return run_with_socket("/nowhere", arguments);
  }
  [[nodiscard]] bool has_partial_files() const {
    for (const auto& entry : fs::recursive_directory_iterator(cache())) {
      if (entry.path().filename().string().starts_with(".partial")) return true;
    }
    return false;
  }

  test::BuiltCode built_;
};

TEST_F(DebuginfoTest, ListShowsTheHottestFileFirst) {
  const Ran ran = debuginfo({"0102030405", "0102030406"}, {"list"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "SAMPLES  BUILD ID    FILE\n"
            "99       0102030405  /opt/0102030405\n"
            "98       0102030406  /opt/0102030406\n");
  EXPECT_EQ(debuginfo({"0102030405", "0102030406"}, {"list", "--json", "--limit", "1"}).out,
            R"({"missing":[{"build_id":"0102030405","path":"/opt/0102030405","samples":99}]})"
            "\n");
}

TEST_F(DebuginfoTest, AFileOfAnotherUserIsReadInASandboxWithTheSameResult) {
  const std::string path = profile_of({"0102030405"});
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  const auto file = SourceFile::open(path);
  ASSERT_TRUE(file);
  int children = 0;
  FileReader reader([&children](int socket) {
    ++children;
    return sandbox::spawn_child(kSourceReaderChild, socket);
  });
  const auto found = reader.find_lineless(*file);
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_THAT(*found, SizeIs(1));
  EXPECT_EQ((*found)[0].build_id, "0102030405");
  EXPECT_EQ((*found)[0].path, "/opt/0102030405");
  EXPECT_EQ((*found)[0].samples, 99U);
  EXPECT_EQ(children, 1);
}

TEST_F(DebuginfoTest, AnInputThatIsNoProfileIsRefused) {
  const std::string fifo = built_.path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string huge = built_.path("huge.pb.gz");
  std::ofstream(huge) << "x";
  ASSERT_EQ(::truncate(huge.c_str(), off_t{1} << 30), 0);
  const auto list = [](const std::string& input) {
    return run_with_socket("/nowhere", {"debuginfo", "list", "-i", input});
  };
  EXPECT_EQ(list(fifo).code, 2);
  EXPECT_EQ(list("/proc/kmsg").code, 2);
  EXPECT_THAT(list(huge).err, HasSubstr("larger than"));
  const std::string noise = built_.path("noise");
  std::ofstream(noise) << std::string(100, 'x');
  EXPECT_THAT(list(noise).err, HasSubstr("noise: "));
}

TEST_F(DebuginfoTest, AFetchedFileIsWhereTheDaemonFindsIt) {
  serve("0102030405");
  const DebuginfodServer server(served());
  const Ran ran = debuginfo({"0102030405", "0102030406"}, {"fetch", "--url", server.url()});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("/opt/0102030405  0102030405  "));
  EXPECT_THAT(ran.err, HasSubstr("1 debug file downloaded"));
  EXPECT_THAT(ran.err, HasSubstr("1 on no server, 0 failed"));
  EXPECT_EQ(test::read_file(stored("0102030405")),
            test::read_file(built_.path("program-0102030405")));
  DebugFileQuery query;
  query.build_id = "\x01\x02\x03\x04\x05";
  const auto found = open_in_cache(query, cache().string());
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->fd.valid());
  EXPECT_FALSE(has_partial_files());
}

TEST_F(DebuginfoTest, TheFilesThatWereNotUsedForTheLongestTimeAreRemovedForRoom) {
  const auto add = [this](const std::string& id, std::size_t bytes, time_t read, time_t written) {
    fs::create_directories(stored(id).parent_path());
    std::ofstream(stored(id)) << std::string(bytes, 'x');
    const timespec times[] = {{.tv_sec = read, .tv_nsec = 0}, {.tv_sec = written, .tv_nsec = 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, stored(id).c_str(), times, 0), 0);
  };
  constexpr std::size_t kSize = 1 << 20;
  add("aa01", kSize, 1000, 1000);
  add("aa02", kSize, 9000, 1000);  // read later
  add("bb01", kSize, 2000, 2000);
  add("bb02", kSize, 500, 500);
  fs::create_directories(built_.path("elsewhere"));
  std::ofstream(built_.path("elsewhere/01.debug")) << std::string(kSize, 'x');
  fs::create_directory_symlink(built_.path("elsewhere"), cache() / ".build-id/cc");
  const auto opened = DebugCache::open(cache());
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->remove_oldest(5 * kSize, "bb02"), 0U);
  // A file may take a few more blocks than its bytes.
  EXPECT_EQ(opened->remove_oldest(2 * kSize + kSize / 2, "bb02"), 2U);
  EXPECT_FALSE(fs::exists(stored("aa01")));
  EXPECT_TRUE(fs::exists(stored("aa02")));
  EXPECT_FALSE(fs::exists(stored("bb01")));
  EXPECT_TRUE(fs::exists(stored("bb02"))) << "kept";
  EXPECT_EQ(opened->remove_oldest(0, ""), 2U);
  EXPECT_TRUE(fs::exists(built_.path("elsewhere/01.debug"))) << "no link is followed";
}

TEST_F(DebuginfoTest, WithoutTheLibraryTheErrorNamesItsPackage) {
  const auto opened =
      Debuginfod::open({.urls = "http://127.0.0.1:1", .library = "libdebuginfod-none.so.1"}, {});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(opened.error().hint, HasSubstr("libdebuginfod1"));
}

TEST_F(DebuginfoTest, AFileThatIsThereIsNotFetchedAgain) {
  serve("0102030405");
  const DebuginfodServer server(served());
  EXPECT_EQ(debuginfo({"0102030405"}, {"fetch", "--url", server.url()}).code, 0);
  const Ran again = debuginfo({"0102030405"}, {"fetch", "--url", server.url(), "--json"});
  EXPECT_EQ(again.out, "{\"fetched\":0,\"bytes\":0,\"present\":1,\"not_found\":0,\"failed\":0}\n");
}

TEST_F(DebuginfoTest, AFileWithAnotherBuildIdIsNotKept) {
  serve("0102030405", "0102030499");
  const DebuginfodServer server(served());
  const Ran ran = debuginfo({"0102030405"}, {"fetch", "--url", server.url()});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("build id 0102030499"));
  EXPECT_FALSE(fs::exists(stored("0102030405")));
  EXPECT_FALSE(has_partial_files());
}

TEST_F(DebuginfoTest, WhatIsNoElfFileIsNotKept) {
  fs::create_directories(served() / "buildid/0102030405");
  std::ofstream(served() / "buildid/0102030405/debuginfo") << "<html>";
  const DebuginfodServer server(served());
  const Ran ran = debuginfo({"0102030405"}, {"fetch", "--url", server.url()});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("ELF"));
  EXPECT_FALSE(fs::exists(stored("0102030405")));
}

TEST_F(DebuginfoTest, AFileOverTheLimitIsNotKept) {
  serve("0102030405");
  fs::resize_file(served() / "buildid/0102030405/debuginfo", 3 << 20);
  const DebuginfodServer server(served());
  const Ran ran = debuginfo({"0102030405"}, {"fetch", "--url", server.url(), "--max-size", "2"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("--max-size"));
  EXPECT_FALSE(fs::exists(stored("0102030405")));
}

TEST_F(DebuginfoTest, AServerThatDoesNotAnswerIsNotWaitedForLong) {
  const DebuginfodServer server(served());
  const Ran ran = debuginfo({"0a0a0a0a"}, {"fetch", "--url", server.url(), "--timeout", "1s"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("1 failed"));
}

TEST_F(DebuginfoTest, WithoutAServerTheHintNamesOne) {
  const Ran ran = debuginfo({"0102030405"}, {"fetch"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("no debuginfod server"));
  EXPECT_THAT(ran.err, HasSubstr("--url"));
}

TEST_F(DebuginfoTest, ACallerWithoutPermissionGetsAClearError) {
  ASSERT_EQ(::geteuid(), 0U) << "needs another user, and root to become it";
  ASSERT_EQ(::chmod(cache().c_str(), 0755), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
    const auto opened = DebugCache::open("/usr");
    ::_exit(!opened && opened.error().code == ErrorCode::kPermissionDenied &&
                    opened.error().hint.find("group profd") != std::string::npos
                ? 0
                : 2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(DebuginfoTest, ACacheThatIsALinkIsNotWritten) {
  serve("0102030405");
  fs::create_directories(built_.path("elsewhere"));
  fs::create_directory_symlink(built_.path("elsewhere"), cache() / ".build-id");
  const DebuginfodServer server(served());
  EXPECT_EQ(debuginfo({"0102030405"}, {"fetch", "--url", server.url()}).code, 1);
  EXPECT_TRUE(fs::is_empty(built_.path("elsewhere")));
}

TEST_F(DebuginfoTest, AnotherActionIsAnError) { EXPECT_EQ(debuginfo({}, {"remove"}).code, 2); }

}  // namespace
}  // namespace profd
