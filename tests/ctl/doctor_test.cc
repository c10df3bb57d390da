#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <stdlib.h>

#include "collectors/sandbox/packets.h"
#include "ctl/client/service_commands.h"
#include "ctl/doctor/process_checks.h"
#include "ctl/doctor/program_checks.h"
#include "ctl/doctor/program_child.h"
#include "ctl/doctor/service_checks.h"
#include "ctl/process/child_process.h"
#include "formats/base/unique_fd.h"
#include "tests/collectors/forked.h"
#include "tests/collectors/silent_fuse.h"
#include "tests/collectors/users_mounts.h"
#include "tests/collectors/without_server.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

TEST(RunProgram, ReturnsTheOutputAndTheStatus) {
  const auto output = run_program({"sh", "-c", "echo one; echo two >&2; exit 3"}, 20s);
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_EQ(output->out, "one\n");
  EXPECT_EQ(output->status, 3);
}

TEST(RunProgram, ReturnsTheSignalThatKilledIt) {
  const auto output = run_program({"sh", "-c", "kill -TERM $$"}, 20s);
  ASSERT_TRUE(output);
  EXPECT_EQ(output->status, 128 + SIGTERM);
}

TEST(RunProgram, FailsForAProgramThatDoesNotExist) {
  const auto output = run_program({"no-such-program-here"}, 20s);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, ErrorCode::kNotFound);
}

TEST(RunProgram, KillsAProgramThatRunsTooLong) {
  const auto output = run_program({"sleep", "1000"}, 100ms);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, ErrorCode::kTimeout);
}

TEST(RunProgram, KeepsAtMostOneMebibyte) {
  const auto output = run_program({"head", "-c", "5000000", "/dev/zero"}, 60s);
  ASSERT_TRUE(output);
  EXPECT_EQ(output->status, 0);
  EXPECT_EQ(output->out, std::string(std::size_t{1} << 20, '\0'));
}

CheckPoint find(const CheckReport& report, const std::string& name) {
  for (const CheckPoint& point : report) {
    if (point.name == name) return point;
  }
  ADD_FAILURE() << "no point " << name;
  return {};
}

// A program that is compiled with `flags`; `after` is a command that gets its path, like strip.
class Program {
 public:
  explicit Program(const std::string& flags, const std::string& after = "true",
                   const std::string& source = "int main(void){return 0;}") {
    std::string pattern = "/tmp/profd-doctor-XXXXXX";
    const UniqueFd file(::mkstemp(pattern.data()));
    path_ = pattern;
    const std::string command = "echo '" + source + "' | cc -x c - -x none " + flags + " -o " +
                                path_ + " && " + after + " " + path_;
    const auto built = run_program({"sh", "-c", command}, 60s);
    EXPECT_TRUE(built && built->status == 0) << command;
    fd_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { ::unlink(path_.c_str()); }

  [[nodiscard]] CheckReport report() const { return check_program(fd_.get()); }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  std::string path_;
  UniqueFd fd_;
};

TEST(Doctor, AnOrdinaryProgramIsOk) {
  const CheckReport report = Program("-O1 -Wl,--build-id").report();
  EXPECT_EQ(worst_state(report), CheckState::kOk);
  EXPECT_THAT(report, SizeIs(3));
}

TEST(Doctor, FindsWhatAProgramLacks) {
  EXPECT_EQ(find(Program("-O1", "strip").report(), "symbols").state, CheckState::kNote);
  EXPECT_EQ(find(Program("-O1 -Wl,--build-id=none").report(), "build_id").state, CheckState::kNote);
  const Program bare("-O1 -nostdlib -static -fno-asynchronous-unwind-tables -Wl,-e,main");
  const CheckPoint unwinding = find(bare.report(), "unwinding");
  EXPECT_EQ(unwinding.state, CheckState::kFix);
  EXPECT_THAT(unwinding.hint, HasSubstr("-fasynchronous-unwind-tables"));
}

TEST(Doctor, NotesAnAppThatLinksTheLibraryButIsNotInstrumented) {
  const std::string source = "#include <profd_xray.h>\nint main(void){return profd_xray_start();}";
  const std::string include = "-I" XRAY_LIBRARY_HEADERS " ";
  for (const std::string library : {XRAY_LIBRARY, XRAY_STATIC_LIBRARY " -pthread"}) {
    const Program app(include + library, "true", source);
    const auto found = check_instrumentation(false, app.fd());
    ASSERT_TRUE(found) << library;
    EXPECT_EQ(found->state, CheckState::kNote);
    EXPECT_THAT(found->message, HasSubstr("no function is instrumented"));
    EXPECT_THAT(found->hint, HasSubstr("-fxray-instrument"));
  }
  EXPECT_FALSE(check_instrumentation(false, Program("-O1").fd()));
}

TEST(Doctor, RejectsAFileThatIsNotAProgram) {
  for (const std::string& bytes : {std::string(), std::string("#!/bin/sh\n"),
                                   std::string("\x7f"
                                               "ELF"),
                                   std::string(4096, '\xff')}) {
    const UniqueFd file(::memfd_create("program", MFD_CLOEXEC));
    ASSERT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(worst_state(check_program(file.get())), CheckState::kFix);
  }
}

TEST(Doctor, TheChildFindsWhatTheFunctionsFind) {
  const Program program("-O1 -Wl,--build-id", "strip");
  EXPECT_EQ(check_program_in_child(false, program.fd()), program.report());
}

// A child that starts as it should and dies of the file.
Result<pid_t> spawn_child_that_dies(int socket) {
  return test::fork_into([socket] {
    sandbox::Request request;
    if (!sandbox::receive_packet(socket, sandbox::buffer_of(request))) return 1;
    const auto started = sandbox::make_sealed("");
    const int fd = started->get();
    if (!sandbox::send_packet(socket, sandbox::bytes_of(sandbox::Answer{}), {&fd, 1})) return 1;
    return sandbox::receive_packet(socket, sandbox::buffer_of(request)) ? 2 : 1;
  });
}

TEST(Doctor, AFileThatEndsTheChildIsAPoint) {
  const Program program("-O1");
  const CheckReport report = check_program_in_child(false, program.fd(), spawn_child_that_dies);
  ASSERT_THAT(report, SizeIs(1));
  EXPECT_EQ(report[0].state, CheckState::kUnknown);
  EXPECT_THAT(report[0].message, HasSubstr("could not be read"));
}

TEST(Doctor, ChecksARunningProcess) {
  const auto report = check_process(static_cast<std::uint32_t>(::getpid()));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(find(*report, "program").message, HasSubstr("ctl_test"));
  EXPECT_EQ(find(*report, "unwinding").state, CheckState::kOk);
  EXPECT_EQ(find(*report, "runtime").state, CheckState::kOk);
  EXPECT_EQ(find(*report, "runtime").message, "native; no JIT detected");
}

// Maps a page of a new file with that path as code of this process.
class MappedCode {
 public:
  explicit MappedCode(const std::string& path) {
    std::ofstream(path) << std::string(4096, '\0');
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    page_ = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
  }
  MappedCode(const MappedCode&) = delete;
  MappedCode& operator=(const MappedCode&) = delete;
  ~MappedCode() { ::munmap(page_, 4096); }

 private:
  void* page_ = nullptr;
};

TEST(Doctor, NodeWithAJitdumpAloneGetsAHintAboutItsNewestFunctions) {
  std::string directory = "/tmp/profd-doctor-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  {
    const MappedCode node(directory + "/node");
    const MappedCode dump(directory + "/jit-9.dump");
    const auto report = check_process(static_cast<std::uint32_t>(::getpid()));
    ASSERT_TRUE(report);
    const CheckPoint runtime = find(*report, "runtime");
    EXPECT_EQ(runtime.state, CheckState::kNote);
    EXPECT_THAT(runtime.message, HasSubstr("jit-9.dump, those of the newest functions late"));
    EXPECT_THAT(runtime.hint, HasSubstr("--perf-basic-prof"));
  }
  std::filesystem::remove_all(directory);
}

CheckPoint runtime_of_python(const std::string& verdict,
                             const std::string& runtime = "python 3.11.2") {
  std::string directory = "/tmp/profd-doctor-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) return {};
  CheckPoint point;
  {
    const MappedCode python(directory + "/app");
    const std::vector<StatusInfo::Interpreters::File> files = {
        {.path = "/usr/bin/other", .runtime = "python 3.9.2", .verdict = "known"},
        {.path = directory + "/app", .runtime = runtime, .verdict = verdict}};
    const auto report = check_process(static_cast<std::uint32_t>(::getpid()), files);
    if (report) point = find(*report, "runtime");
  }
  std::filesystem::remove_all(directory);
  return point;
}

// Whatever the name of the program is. Mutations: by the first file of the list, by the name alone.
TEST(Doctor, KnowsTheInterpreterInAFileFromTheDaemon) {
  const CheckPoint known = runtime_of_python("known");
  EXPECT_EQ(known.state, CheckState::kOk);
  EXPECT_EQ(known.message, "python 3.11.2: its functions have names");
  const CheckPoint refused = runtime_of_python("free_threaded");
  EXPECT_EQ(refused.state, CheckState::kNote);
  EXPECT_THAT(refused.message, HasSubstr("python 3.11.2: its functions have no names"));
  EXPECT_THAT(refused.hint, HasSubstr("-X perf_jit"));
  EXPECT_THAT(runtime_of_python("of_a_newer_daemon").message, HasSubstr("of_a_newer_daemon"));
  EXPECT_THAT(runtime_of_python(kRefusedByVerifier).message, HasSubstr("verifier"));
  EXPECT_EQ(runtime_of_python("free_threaded", "php 8.3.6").hint, "") << "no switch of Python's";
}

TEST(Doctor, SaysThatTheVerifierRefusesInterpreters) {
  EXPECT_EQ(check_interpreters({.known = 2}).state, CheckState::kOk);
  EXPECT_EQ(check_interpreters({.supported = false}).state, CheckState::kNote);
  const CheckPoint refused = check_interpreters({.known = 1, .refused = {{"free_threaded", 1}}});
  EXPECT_EQ(refused.state, CheckState::kNote);
  EXPECT_THAT(refused.message, HasSubstr("1 free_threaded"));
}

TEST(Doctor, RecognizesAKernelThread) {
  const auto report = check_process(2);  // kthreadd, of every Linux
  ASSERT_TRUE(report);
  ASSERT_THAT(*report, SizeIs(1));
  EXPECT_EQ(report->front().state, CheckState::kOk);
  EXPECT_THAT(report->front().message, HasSubstr("kernel thread"));
  EXPECT_EQ(report->front().hint, "");
}

TEST(Doctor, IsOkIfNothingIsLost) {
  EXPECT_EQ(check_losses({}).state, CheckState::kOk);
  const CheckPoint none = check_losses({.taken = 1000, .sent = 1000, .lost = {{"ring_full", 0}}});
  EXPECT_EQ(none.state, CheckState::kOk);
  EXPECT_EQ(none.message, "0 of 1000 samples lost");
}

TEST(Doctor, SaysWhatToDoIfMoreThanOneSampleInAThousandIsLost) {
  const CheckPoint few = check_losses({.taken = 1000, .sent = 999, .lost = {{"ring_full", 1}}});
  EXPECT_EQ(few.state, CheckState::kOk);
  EXPECT_EQ(few.message, "1 of 1000 samples lost: 1 ring_full");
  EXPECT_EQ(few.hint, "");
  const CheckPoint many = check_losses(
      {.taken = 1000, .sent = 991, .lost = {{"ring_full", 2}, {"memory_limit", 5}, {"new", 2}}});
  EXPECT_EQ(many.state, CheckState::kFix);
  EXPECT_THAT(many.message,
              HasSubstr("9 of 1000 samples lost: 5 memory_limit, 2 new, 2 ring_full"));
  for (const char* what : {"ring_bytes", "session_max_bytes", "new: "}) {
    EXPECT_THAT(many.hint, HasSubstr(what));
  }
  EXPECT_THAT(many.hint, Not(HasSubstr("no_ring")));
}

TEST(Doctor, SaysThatContinuousModeIsOff) {
  const CheckPoint point = check_history({});
  EXPECT_EQ(point.state, CheckState::kFix);
  EXPECT_THAT(point.message, HasSubstr("off"));
  EXPECT_THAT(point.hint, HasSubstr("continuous.enabled = true"));
}

TEST(Doctor, SaysWhyWindowsFail) {
  StatusInfo::Continuous history;
  history.enabled = true;
  history.windows = 3;
  history.disk_bytes = 2048;
  EXPECT_EQ(check_history(history).state, CheckState::kOk);
  EXPECT_THAT(check_history(history).message, HasSubstr("3 windows kept, 2.0 KiB"));
  history.failed = {{"no_space", 5}};
  history.lost_samples = 77;
  const CheckPoint point = check_history(history);
  EXPECT_EQ(point.state, CheckState::kFix);
  EXPECT_THAT(point.message, HasSubstr("5 no_space; 77 samples lost"));
  EXPECT_THAT(point.hint, HasSubstr("free some space"));
}

TEST(Doctor, SaysThatProcessesOutsideTheNamespaceAreNotProfiled) {
  StatusInfo status;
  EXPECT_EQ(check_namespace(status).state, CheckState::kOk);
  status.outside_namespace = 12;
  const CheckPoint point = check_namespace(status);
  EXPECT_EQ(point.state, CheckState::kFix);
  EXPECT_THAT(point.message, HasSubstr("12 samples are of processes outside"));
  EXPECT_THAT(point.hint, HasSubstr("--pid=host"));
}

TEST(Doctor, NamesNoCommandOfSystemdOnAHostWithoutIt) {
  EXPECT_EQ(service_commands(true).start, "systemctl start profd");
  const ServiceCommands by_hand = service_commands(false);
  for (const auto& command : {by_hand.start, by_hand.restart, by_hand.reload, by_hand.log}) {
    EXPECT_THAT(std::string(command), Not(HasSubstr("systemctl")));
    EXPECT_THAT(std::string(command), Not(HasSubstr("journalctl")));
  }
  EXPECT_THAT(check_history({}).hint, HasSubstr(std::string(service_commands().reload)));
}

TEST(Doctor, SaysWhereTheLogIsThatARemedyNames) {
  StatusInfo::Continuous history;
  history.enabled = true;
  history.failed = {{"io", 1}, {"no_space", 1}};
  const std::string log = "(" + std::string(service_commands().log) + ")";
  EXPECT_THAT(check_history(history).hint, HasSubstr("io: the log of profd says why"));
  EXPECT_THAT(check_history(history).hint, HasSubstr(log));
  history.failed = {{"no_space", 1}};
  EXPECT_THAT(check_history(history).hint, Not(HasSubstr(log)));
}

// A user's processes in a mount namespace of the user's own, where an overlay of a FUSE file system
// is. Its server does not answer when the process is checked.
class DoctorOfHangingPlaces : public testing::Test {
 protected:
  DoctorOfHangingPlaces() {
    EXPECT_NE(::mkdtemp(directory_.data()), nullptr);
    for (const char* name : {"/fuse", "/lower", "/lower/tmp", "/overlay"}) {
      std::filesystem::create_directory(directory_ + name);
    }
    fuse_.emplace(directory_ + "/fuse");
    EXPECT_TRUE(fuse_->mounted());
  }
  ~DoctorOfHangingPlaces() override {
    fuse_.reset();
    std::filesystem::remove_all(directory_);
  }

  [[nodiscard]] bool mount_overlay() const {
    return test::mount_overlay(directory_ + "/lower", directory_ + "/fuse",
                               directory_ + "/overlay");
  }
  CheckReport report_of(std::uint32_t pid) {
    fuse_->fall_silent();
    const auto report = test::result_without_server(fuse_, [pid] { return check_process(pid); });
    EXPECT_TRUE(report);
    return report ? *report : CheckReport();
  }

  std::string directory_ = "/tmp/profd-doctor-XXXXXX";
  std::optional<test::SilentFuse> fuse_;
};

TEST_F(DoctorOfHangingPlaces, AProgramThereIsNotOpened) {
  const std::string program = directory_ + "/overlay/sleep";
  std::filesystem::copy_file("/bin/sleep", directory_ + "/lower/sleep");
  void* const shared =
      ::mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const pid = static_cast<volatile pid_t*>(shared);
  const test::UsersMounts parent([&] {
    if (!mount_overlay()) return false;
    const pid_t child = ::vfork();
    if (child == 0) {
      ::execl(program.c_str(), "sleep", "1000", static_cast<char*>(nullptr));
      ::_exit(1);
    }
    *pid = child;
    return child > 0;
  });
  ASSERT_TRUE(parent.is_ready());
  const CheckReport report = report_of(static_cast<std::uint32_t>(*pid));
  ::kill(*pid, SIGKILL);
  ::munmap(shared, sizeof(pid_t));
  ASSERT_THAT(report, SizeIs(1));
  EXPECT_EQ(report[0].state, CheckState::kUnknown);
  EXPECT_THAT(report[0].message, HasSubstr("a file system of another user"));
  EXPECT_THAT(report[0].hint, HasSubstr("sudo -u USER"));
}

TEST_F(DoctorOfHangingPlaces, AProcessWithItsRootThereIsChecked) {
  const test::UsersMounts process([&] {
    const std::string root = directory_ + "/overlay";
    return mount_overlay() && ::chroot(root.c_str()) == 0 && ::chdir("/") == 0;
  });
  ASSERT_TRUE(process.is_ready());
  EXPECT_EQ(find(report_of(process.tgid()), "runtime").state, CheckState::kOk);
}

TEST(Doctor, SaysWhenThereIsNoSuchProcess) {
  const auto report = check_process(std::numeric_limits<std::int32_t>::max());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace profd
