// Who may do what, as one table: every route of the control socket, by every kind of caller, on
// everything that it may be about. A route that is not in the table fails the test, so a new one
// starts with nobody's rights checked by accident.

#include <grp.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string_view>

#include <boost/json/parse.hpp>
#include <gmock/gmock.h>

#include "daemon/control/routes.h"
#include "formats/api/history_api.h"
#include "formats/profile/gperftools_reader.h"
#include "formats/profile/profile.h"
#include "tests/e2e/harness.h"
#include "tests/e2e/rights_table.h"
#include "tests/reachable_program.h"
#include "tests/user_namespace.h"

namespace profd::e2e {
namespace {

using ::testing::AnyOf;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr gid_t kPrivilegedGroup = 4713;
constexpr uid_t kStranger = 4799;
constexpr int kNiceness = 5;

void write_id_map(const char* path, uid_t outside) {
  std::ofstream(path) << "0 " << outside << " 1";
}

// Between fork and exec.
void become(const Who& who) {
  const int root = who.own_namespace ? test::leave_chroot() : -1;
  const gid_t group = kPrivilegedGroup;
  const bool became = ::setgroups(who.member ? 1 : 0, &group) == 0 &&
                      ::setresgid(who.uid, who.uid, who.uid) == 0 &&
                      ::setresuid(who.uid, who.uid, who.uid) == 0;
  if (!became) ::_exit(126);
  if (!who.own_namespace) return;
  if (!test::enter_user_namespace(root)) ::_exit(126);
  write_id_map("/proc/self/setgroups", 0);
  std::ofstream("/proc/self/setgroups") << "deny";
  write_id_map("/proc/self/gid_map", who.uid);
  write_id_map("/proc/self/uid_map", who.uid);
}

// The daemon alone sees a host with a group profd.
void enter_host_with_group(const std::filesystem::path& groups) {
  if (::unshare(CLONE_NEWNS) != 0) ::_exit(126);
  const int root = test::leave_chroot();
  if (root < 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::fchdir(root) != 0 || ::chroot(".") != 0 ||
      ::mount(groups.c_str(), "/etc/group", nullptr, MS_BIND, nullptr) != 0) {
    ::_exit(126);
  }
  ::close(root);
}

struct Answer {
  int status = 0;
  std::string body;
};

// Kernel addresses as text, in either base.
bool has_kernel_address(const std::string& text) {
  static const std::regex hexadecimal("[fF]{4}[89a-fA-F][0-9a-fA-F]{11}");
  if (std::regex_search(text, hexadecimal)) return true;
  static const std::regex decimal("[0-9]{20}");  // those from 0xffff800000000000 on have 20 digits
  return std::regex_search(text, decimal);
}

// What a request is about: in targets and bodies, these words stand for what is the case.
struct Things {
  std::string own_pid;
  std::string others_pid;
  std::string setuid_pid;
  std::string hidden_pid;  // not dumpable
  std::string own_uid;
};

// OWN_PID and its like in a body.
std::string replaced(std::string text, const std::string& word, const std::string& by) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
    text.replace(at, word.size(), by);
    at += by.size();
  }
  return text;
}

class RightsTest : public ::testing::Test {
 protected:
  RightsTest() {
    std::filesystem::permissions(directory_.path(), std::filesystem::perms(0755));
    copy_sleep("setuid", 04755);
    copy_sleep("hidden", 0711);
  }

  // A copy of sleep, of root, by another name: for requests that no sample has to follow.
  void copy_sleep(const std::string& name, mode_t mode) {
    std::filesystem::copy_file("/bin/sleep", directory_.path() / name);
    ::chmod((directory_.path() / name).c_str(), mode);
  }

  static Process::Options as(const Who& who) {
    Process::Options options;
    options.before_exec = [who] { become(who); };
    return options;
  }

  // A workload to be sampled, which leaves most of a CPU to the many requests meanwhile.
  static Process::Options busy_as(const Who& who) {
    Process::Options options;
    options.before_exec = [who] {
      become(who);
      if (::setpriority(PRIO_PROCESS, 0, kNiceness) != 0) ::_exit(126);
    };
    return options;
  }

  Answer ask(const Who& who, const std::string& method, const std::string& path,
             const std::string& body = {}) const {
    Args command{"curl",           "--silent",      "--max-time",     "30",        "--write-out",
                 "\n%{http_code}", "--unix-socket", daemon_.socket(), "--request", method};
    if (!body.empty()) command.insert(command.end(), {"--data-binary", body});
    command.push_back("http://profd" + path);
    const Ended ended = run(command, as(who));
    EXPECT_EQ(ended.status, 0) << who.name << " " << path << " " << ended.err;
    const std::size_t last_line = ended.out.rfind('\n');
    if (last_line == std::string::npos) return {};
    return {.status = std::stoi(ended.out.substr(last_line + 1)),
            .body = ended.out.substr(0, last_line)};
  }

  // As the caller sees it.
  std::set<std::uint32_t> pids_of_last_window(const Who& caller) const {
    std::set<std::uint32_t> pids;
    const auto window = parse_window_shares(ask(caller, "GET", "/v1/history/last").body);
    if (!window) return pids;
    for (const ProcessShare& process : window->processes) pids.insert(process.pid);
    return pids;
  }

  // The id of a session that samples every process named shares that its owner may see.
  std::string start_session(const Who& who) const {
    const Answer started =
        ask(who, "POST", "/v1/sessions", R"({"target":{"comms":["shares"]},"frequency":499})");
    const auto id = parse_started(started.body);
    EXPECT_TRUE(id) << who.name << started.body;
    return id ? *id : "";
  }

  void wait_for_samples(const std::string& id) const {
    const auto has_some = [&] {
      const auto session = parse_session_info(ask(kCallers[0], "GET", "/v1/sessions/" + id).body);
      return session && session->samples >= 20;
    };
    EXPECT_TRUE(eventually(has_some)) << id;
  }

  // Ends a session, whosever it is.
  ResultInfo stop_as_root(const std::string& id) const {
    const auto result =
        parse_result_info(ask(kCallers[0], "POST", "/v1/sessions/" + id + "/stop").body);
    return result ? *result : ResultInfo{};
  }

  void remove_as_root(const std::string& id) const {
    stop_as_root(id);
    ask(kCallers[0], "DELETE", "/v1/results/" + id);
  }

  std::string make_subject(const Row& row, const Who& who, std::string& file) const;
  void check(const Row& row, std::size_t column, const Things& things) const;

  static void write_groups(const std::filesystem::path& path) {
    std::ofstream(path) << "root:x:0:\nprofd:x:" << kPrivilegedGroup << ":\n";
  }
  // With continuous mode on, so that there is a history.
  static Daemon::Options host_with_group(const std::filesystem::path& directory) {
    const std::filesystem::path groups = directory / "group";
    write_groups(groups);
    std::ofstream(directory / "profd.toml")
        << "[continuous]\nenabled = true\nwindow = \"1s\"\nfrequency = 199\n";
    Daemon::Options options;
    options.arguments = {"--config", directory / "profd.toml"};
    options.process.before_exec = [groups] { enter_host_with_group(groups); };
    return options;
  }

  TemporaryDirectory directory_;
  Daemon daemon_{host_with_group(directory_.path())};
  Process others_{{test::reachable_program(workload("shares")), "600"},
                  busy_as({.name = "stranger", .uid = kStranger})};
};

// The session, or the result that it left, which a route with ID is to be about.
std::string RightsTest::make_subject(const Row& row, const Who& who, std::string& file) const {
  const std::string about = row.about;
  if (about == "nobody's") return "00000000";
  if (about == "the newest window") {
    const Answer windows = ask(kCallers[0], "GET", "/v1/windows");
    return std::string(
        boost::json::parse(windows.body).at("windows").as_array().back().as_string());
  }
  const std::string id =
      start_session(about == "own" ? who : Who{.name = "stranger", .uid = kStranger});
  if (std::string(row.route).find("/v1/results") == std::string::npos) return id;
  const bool has_samples = !(who.own_namespace && about == "own");
  if (has_samples) wait_for_samples(id);
  const ResultInfo result = stop_as_root(id);
  if (!result.files.empty()) file = result.files.front().path;
  return id;
}

std::string body_of(const Row& row, const Things& things) {
  std::string body = row.body;
  for (const auto& [word, value] :
       {std::pair("OWN_PID", things.own_pid), std::pair("OTHERS_PID", things.others_pid),
        std::pair("SETUID_PID", things.setuid_pid), std::pair("HIDDEN_PID", things.hidden_pid),
        std::pair("OWN_UID", things.own_uid)}) {
    body = replaced(body, word, value);
  }
  return body;
}

// One request, and what it left behind removed.
void RightsTest::check(const Row& row, std::size_t column, const Things& things) const {
  const Who& who = kCallers[column];
  const std::string route = row.route;
  const std::string what = std::string(who.name) + ": " + route + " " + row.about;
  const std::size_t space = route.find(' ');
  std::string path = route.substr(space + 1);
  std::string file = "none.1.prof";
  std::string id;
  if (path.find("ID") != std::string::npos) {
    id = make_subject(row, who, file);
    path = replaced(replaced(path, "PATH", file), "ID", id);
  }
  const std::string method = route.substr(0, space);
  const bool has_query = method == "GET" && *row.body != '\0';
  const Answer answer = has_query ? ask(who, method, path + "?" + row.body)
                                  : ask(who, method, path, body_of(row, things));
  EXPECT_EQ(answer.status, row.status[column]) << what << "\n" << answer.body.substr(0, 500);
  const bool privileged = who.uid == 0 || who.member;
  if (!privileged && !path.starts_with("/v1/results")) {
    EXPECT_FALSE(has_kernel_address(answer.body)) << what << answer.body;
  }
  std::set<std::string> left;  // a stop answers with the session that it was asked for
  if (const auto started = parse_started(answer.body)) left.insert(*started);
  if (const auto result = parse_result_info(answer.body)) left.insert(result->result);
  const std::string_view about = row.about;
  if (!id.empty() && (about == "own" || about == "another's")) left.insert(id);
  for (const std::string& one : left) remove_as_root(one);
}

TEST_F(RightsTest, EveryCallerGetsWhatTheTableSays) {
  for (std::size_t column = 0; column < kCallers.size(); ++column) {
    const Who& who = kCallers[column];
    Process own({test::reachable_program(workload("shares")), "600"}, busy_as(who));
    Process setuid({directory_.path() / "setuid", "600"}, as(who));
    Process hidden({directory_.path() / "hidden", "600"}, as(who));
    // Each has to have come past its exec, where it becomes what it is.
    EXPECT_TRUE(eventually([&] {
      return std::ranges::all_of(std::array{&own, &setuid, &hidden}, [](const Process* process) {
        std::ifstream file("/proc/" + std::to_string(process->pid()) + "/comm");
        std::string comm;
        return std::getline(file, comm) &&
               (comm == "shares" || comm == "setuid" || comm == "hidden");
      });
    }));
    const Things things{.own_pid = std::to_string(own.pid()),
                        .others_pid = std::to_string(others_.pid()),
                        .setuid_pid = std::to_string(setuid.pid()),
                        .hidden_pid = std::to_string(hidden.pid()),
                        .own_uid = std::to_string(who.uid)};
    // A window with all of its time in it has to have come to its end.
    const Who& seer = who.own_namespace ? kCallers[0] : who;
    EXPECT_TRUE(eventually(
        [&] { return pids_of_last_window(seer).contains(static_cast<std::uint32_t>(own.pid())); }));
    for (const Row& row : kTable) check(row, column, things);
  }
}

// An unprivileged caller sees only the processes of its own user in a window.
TEST_F(RightsTest, OthersSeeTheirOwnProcessesAloneInTheHistory) {
  for (const Who& who : kCallers) {
    const bool privileged = who.uid == 0 || who.member;
    Process own({test::reachable_program(workload("shares")), "600"}, as(who));
    const auto own_pid = static_cast<std::uint32_t>(own.pid());
    const auto others_pid = static_cast<std::uint32_t>(others_.pid());
    EXPECT_TRUE(eventually([&] {
      const auto pids = pids_of_last_window(kCallers[0]);
      return pids.contains(own_pid) && pids.contains(others_pid);
    }));
    const std::set<std::uint32_t> seen = pids_of_last_window(who);
    EXPECT_EQ(seen.contains(own_pid), !who.own_namespace) << who.name;
    EXPECT_EQ(seen.contains(others_pid), privileged) << who.name;
    const Answer answer = ask(who, "POST", "/v1/exports", "{}");
    EXPECT_EQ(answer.status, who.own_namespace ? 404 : 200) << who.name;
    if (answer.status != 200) continue;
    const auto exported = parse_result_info(answer.body);
    ASSERT_TRUE(exported) << who.name;
    for (const ProfileSummary& profile : exported->summary.profiles) {
      EXPECT_TRUE(privileged || profile.pid == own_pid) << who.name << " " << profile.pid;
    }
  }
}

TEST(RightsTableTest, HasEveryRoute) {
  std::set<std::string> in_table;
  for (const Row& row : kTable) in_table.insert(row.route);
  const std::vector<std::string> routes = route_names();
  EXPECT_EQ(in_table, std::set<std::string>(routes.begin(), routes.end()));
}

TEST_F(RightsTest, OthersSeeTheirOwnSessionsAlone) {
  std::vector<std::string> ids;
  for (const Who& who : kCallers) ids.push_back(start_session(who));
  for (std::size_t column = 0; column < kCallers.size(); ++column) {
    const Who& who = kCallers[column];
    const auto listed = parse_session_list(ask(who, "GET", "/v1/sessions").body);
    ASSERT_TRUE(listed) << who.name;
    std::vector<std::string> seen;
    for (const SessionInfo& session : *listed) seen.push_back(session.session);
    if (who.uid == 0 || who.member) {
      EXPECT_THAT(seen, ::testing::UnorderedElementsAreArray(ids)) << who.name;
    } else {
      EXPECT_THAT(seen, UnorderedElementsAre(ids[column])) << who.name;
    }
  }
}

TEST_F(RightsTest, StatusTellsOthersNoNamesOfFiles) {
  for (const Who& who : kCallers) {
    const auto status = parse_status_info(ask(who, "GET", "/v1/status").body);
    ASSERT_TRUE(status) << who.name;
    if (who.uid == 0 || who.member) continue;
    EXPECT_THAT(status->unwinding.worst, IsEmpty()) << who.name;
  }
}

TEST_F(RightsTest, AProfileForOthersHasNoKernelAddressButThatOfTheHiddenKernel) {
  const Who& plain = kCallers[kPlain];
  Process own({test::reachable_program(workload("reader")), "600"}, as(plain));
  const Answer started =
      ask(plain, "POST", "/v1/sessions",
          R"({"target":{"pids":[)" + std::to_string(own.pid()) + R"(]},"frequency":499})");
  const auto id = parse_started(started.body);
  ASSERT_TRUE(id) << started.body;
  wait_for_samples(*id);
  const Answer stopped = ask(plain, "POST", "/v1/sessions/" + *id + "/stop");
  EXPECT_FALSE(has_kernel_address(stopped.body)) << stopped.body;
  const auto result = parse_result_info(stopped.body);
  ASSERT_TRUE(result) << stopped.body;
  ASSERT_THAT(result->summary.profiles, SizeIs(1));
  const std::string path = result->summary.profiles[0].path;
  const Result<Profile> profile =
      decode_gperftools(ask(plain, "GET", "/v1/results/" + *id + "/files/" + path).body);
  ASSERT_TRUE(profile) << profile.error().message;
  std::set<std::uint64_t> hidden;
  for (const Profile::Record& record : profile->records()) {
    for (const std::uint64_t pc : profile->pcs(record)) {
      if (pc >> 47 != 0) hidden.insert(pc);
    }
  }
  EXPECT_THAT(hidden, Not(IsEmpty())) << "a reader is in the kernel";
  // kernel_image.h: where the kernel would be without address randomization, the same on every
  // host; as a caller one more.
  const std::uint64_t place = fold_kernel_address(0xffffffff81000000);
  for (const std::uint64_t pc : hidden) EXPECT_THAT(pc, AnyOf(place, place + 1)) << std::hex << pc;
}

}  // namespace
}  // namespace profd::e2e
