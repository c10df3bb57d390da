// Hostile files in the places and with the content of JIT sources: each is refused for a reason
// that is counted, and affects nothing else.

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "collectors/jit/processes.h"
#include "tests/collectors/jit/hostile_dump.h"
#include "tests/collectors/jit/runtime.h"
#include "tests/collectors/silent_fuse.h"
#include "tests/formats/jit/jitdump_writer.h"

namespace profd::test {
namespace {

// Puts something at `path`, the place of a jitdump, or beside it.
struct Trap {
  std::string name;
  JitRefusal reason;
  std::function<bool(const std::string& path)> lay;
  bool at_map = false;  // the place of a perf map instead
};

void PrintTo(const Trap& trap, std::ostream* out) { *out << trap.name; }

bool make_socket(const std::string& path) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool write_and_own(const std::string& path, uid_t uid) {
  write_file(path, "10000 40 forged\n");
  return ::chown(path.c_str(), uid, uid) == 0;
}

std::vector<Trap> traps() {
  return {
      {"Link", JitRefusal::kLink,
       [](const std::string& path) { return ::symlink("/etc/passwd", path.c_str()) == 0; }},
      {"Fifo", JitRefusal::kNotRegular,
       [](const std::string& path) { return ::mkfifo(path.c_str(), 0666) == 0; }},
      {"Device", JitRefusal::kNotRegular,
       [](const std::string& path) {
         return ::mknod(path.c_str(), S_IFCHR | 0666, makedev(1, 5)) == 0;
       }},
      {"Directory", JitRefusal::kNotRegular,
       [](const std::string& path) { return ::mkdir(path.c_str(), 0777) == 0; }},
      {"Socket", JitRefusal::kNotRegular, make_socket},
      {"Sparse", JitRefusal::kTooLarge,
       [](const std::string& path) {
         write_file(path, "x");
         return ::truncate(path.c_str(), off_t{8} << 40) == 0;
       }},
      {"ForeignOwner", JitRefusal::kForeignOwner,
       [](const std::string& path) { return write_and_own(path, kOther); }},
      {"ForeignMap", JitRefusal::kForeignOwner,
       [](const std::string& path) { return write_and_own(path, kOther); }, true},
      {"LinkedMap", JitRefusal::kLink,
       [](const std::string& path) {
         write_file(path, "10000 40 forged\n");
         return ::link(path.c_str(), (path + ".2").c_str()) == 0;
       },
       true},
      {"StaleMap", JitRefusal::kStale,
       [](const std::string& path) {
         write_file(path, "10000 40 of an earlier process\n");
         const timespec times[] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
         return ::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0;
       },
       true},
      {"NoDump", JitRefusal::kMalformed,
       [](const std::string& path) {
         write_file(path, std::string(100, 'x'));
         return true;
       }},
  };
}

class JitTrapTest : public testing::TestWithParam<Trap> {
 protected:
  void SetUp() override {
    auto started = JitProcesses::start({});
    ASSERT_TRUE(started) << started.error().message;
    processes_ = std::move(*started);
  }

  PrivateDirectory directory_;
  std::unique_ptr<JitProcesses> processes_;
};

// Another process, whose code has a name all the time.
class Bystander {
 public:
  explicit Bystander(JitProcesses& processes)
      : processes_(processes),
        runtime_([this] { return ::chdir(directory_.path().c_str()) == 0; }) {
    write_file(directory_ / ("jit-" + std::to_string(runtime_.pid()) + ".dump"),
               dump_of(runtime_.pid(), {.name = "bystander"}));
    processes.on_mapping(jit_code_of(runtime_.key()));
  }
  [[nodiscard]] bool is_named() {
    return wait_for(processes_,
                    [this] { return name_at(processes_, runtime_.key(), 0x10000) == "bystander"; });
  }

 private:
  JitProcesses& processes_;
  PrivateDirectory directory_;
  Runtime runtime_;
};

TEST_P(JitTrapTest, IsRefusedForItsReasonAndAffectsNoOtherProcess) {
  std::filesystem::create_directory(directory_ / "tmp");
  const Runtime runtime(
      [&] { return ::chroot(directory_.path().c_str()) == 0 && ::chdir("/") == 0; });
  ASSERT_TRUE(runtime.is_ready());
  const std::string pid = std::to_string(runtime.pid());
  ASSERT_TRUE(GetParam().lay(
      directory_ / (GetParam().at_map ? "tmp/perf-" + pid + ".map" : "jit-" + pid + ".dump")));
  processes_->on_mapping(jit_code_of(runtime.key()));
  Bystander bystander(*processes_);
  EXPECT_TRUE(wait_for(*processes_, [&] { return refused(*processes_, GetParam().reason) != 0; }));
  EXPECT_TRUE(bystander.is_named());
  EXPECT_EQ(name_at(*processes_, runtime.key(), 0x10000), "");
}

INSTANTIATE_TEST_SUITE_P(All, JitTrapTest, testing::ValuesIn(traps()),
                         [](const auto& instance) { return instance.param.name; });

TEST_F(HostileDump, AFileThatIsCutWhileItIsReadIsReleasedAndKeepsItsNames) {
  write(dump_of(pid(), {.name = "made"}));
  ASSERT_TRUE(is_named("made"));
  ASSERT_EQ(::truncate(path_.c_str(), 10), 0);
  EXPECT_TRUE(comes_to_be_refused(JitRefusal::kTruncated));
  EXPECT_TRUE(is_named("made"));
}

TEST_F(HostileDump, AZeroTailIsReadOnceItIsWritten) {
  write(dump_of(pid(), {.name = "made"}));
  ASSERT_TRUE(is_named("made"));
  const auto end = static_cast<off_t>(std::filesystem::file_size(path_));
  ASSERT_EQ(::truncate(path_.c_str(), end + (off_t{1} << 30)), 0);
  const std::uint64_t ticket = processes_->read_to_end({});
  ASSERT_TRUE(wait_for(*processes_, [&] { return processes_->has_read_to_end(ticket); }));
  const UniqueFd fd(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  const std::string next = load_of(pid(), {.name = "next", .time_ns = 2});
  ASSERT_EQ(::pwrite(fd.get(), next.data(), next.size(), end), static_cast<ssize_t>(next.size()));
  EXPECT_TRUE(is_named("next"));
}

TEST_F(HostileDump, ALeaseMakesNobodyWait) {
  write_file(path_, dump_of(pid(), {.name = "made"}));
  UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  ::signal(SIGIO, SIG_IGN);
  ASSERT_EQ(::fcntl(fd.get(), F_SETLEASE, F_WRLCK), 0);
  processes_->on_mapping(jit_code_of(runtime_.key()));
  EXPECT_TRUE(comes_to_be_refused(JitRefusal::kLeased));
  fd.reset();
  EXPECT_TRUE(is_named("made"));
}

struct Malformed {
  std::string name;
  std::string reason;
  std::function<std::string(pid_t)> record;
};
void PrintTo(const Malformed& record, std::ostream* out) { *out << record.name; }

std::string raw_record(std::uint32_t id, std::uint32_t total_bytes, std::size_t body_bytes) {
  JitDumpWriter writer;
  writer.record(id, 1, std::string(body_bytes, '\x7f'));
  std::string bytes = writer.take();
  bytes.replace(4, 4, reinterpret_cast<const char*>(&total_bytes), 4);
  return bytes;
}

std::string load_with(pid_t pid, std::uint64_t code_bytes, std::string_view name) {
  JitDumpWriter writer;
  writer.load({.timestamp = 1,
               .pid = static_cast<std::uint32_t>(pid),
               .tid = 1,
               .address = 0x10000,
               .code_bytes = code_bytes,
               .name = name,
               .code = "\x90"});
  return writer.take();
}

std::vector<Malformed> malformed_records() {
  return {
      {"CodeBeyondItsRecord", "bad_code_size",
       [](pid_t pid) { return load_with(pid, 1 << 20, "liar"); }},
      {"ARecordSmallerThanItsKind", "short_record", [](pid_t) { return raw_record(0, 20, 4); }},
      {"AnUnknownRecord", "unknown_record", [](pid_t) { return raw_record(77, 32, 16); }},
      {"ARangeThatWraps", "bad_address",
       [](pid_t pid) {
         JitDumpWriter writer;
         writer.load({.timestamp = 1,
                      .pid = static_cast<std::uint32_t>(pid),
                      .tid = 1,
                      .address = UINT64_MAX - 4,
                      .code_bytes = 0,
                      .name = "wraps",
                      .code = std::string_view("\x90\x90\x90\x90\x90\x90\x90\x90", 8)});
         return writer.take();
       }},
  };
}

class MalformedDump : public HostileDump, public testing::WithParamInterface<Malformed> {};

TEST_P(MalformedDump, LosesOneRecordAndIsCounted) {
  write(dump_header(pid()) + GetParam().record(pid()) + load_of(pid(), {.name = "behind"}));
  EXPECT_TRUE(is_named("behind"));
  EXPECT_TRUE(is_malformed_by(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(All, MalformedDump, testing::ValuesIn(malformed_records()),
                         [](const auto& instance) { return instance.param.name; });

// Files by which perf discloses its heap, of which it dies, or of which it reads nothing.
struct Crafted {
  std::string name;
  std::string reason;  // why it is malformed; empty: it is not
};
void PrintTo(const Crafted& crafted, std::ostream* out) { *out << crafted.name; }

class CraftedDump : public HostileDump, public testing::WithParamInterface<Crafted> {};

TEST_P(CraftedDump, AffectsNoOtherProcess) {
  std::ifstream file(PROFD_JIT_DATA "/hostile-" + GetParam().name + ".dump", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(bytes.empty());
  write(bytes);
  if (GetParam().reason.empty()) {
    EXPECT_TRUE(wait_for(*processes_, [this] { return processes_->stats().events != 0; }));
  } else {
    EXPECT_TRUE(is_malformed_by(GetParam().reason));
  }
  Bystander bystander(*processes_);
  EXPECT_TRUE(bystander.is_named());
}

INSTANTIATE_TEST_SUITE_P(All, CraftedDump,
                         testing::Values(Crafted{"badsize", "bad_code_size"},
                                         Crafted{"huge", "huge_record"}, Crafted{"hdr48", ""},
                                         Crafted{"trav", ""}, Crafted{"v2", ""},
                                         Crafted{"zero", ""}),
                         [](const auto& instance) { return instance.param.name; });

TEST_F(HostileDump, AMoveInCirclesEnds) {
  JitDumpWriter writer;
  writer.header({.pid = static_cast<std::uint32_t>(pid())});
  std::string dump = writer.take() + load_of(pid(), {.name = "made"});
  for (std::uint64_t i = 0; i < 1000; ++i) {
    writer.move({.timestamp = i + 2,
                 .pid = static_cast<std::uint32_t>(pid()),
                 .tid = 1,
                 .old_address = i % 2 == 0 ? 0x10000U : 0x20000U,
                 .new_address = i % 2 == 0 ? 0x20000U : 0x10000U,
                 .code_bytes = 64});
  }
  write(dump + writer.take());
  EXPECT_TRUE(is_named("made"));
}

TEST_F(HostileDump, AFileSystemThatDoesNotAnswerAffectsNoOtherProcess) {
  PrivateDirectory mount_point;
  SilentFuse fuse(mount_point.path());
  ASSERT_TRUE(fuse.mounted());
  const Runtime stuck([&] { return ::chdir(mount_point.path().c_str()) == 0; });
  ASSERT_TRUE(stuck.is_ready());
  fuse.fall_silent();
  processes_->on_mapping(jit_code_of(stuck.key()));
  write(dump_of(pid(), {.name = "made"}));
  EXPECT_TRUE(is_named("made"));
  EXPECT_TRUE(comes_to_be_refused(JitRefusal::kOnFuse));
}

}  // namespace
}  // namespace profd::test
