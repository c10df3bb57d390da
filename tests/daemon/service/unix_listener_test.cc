#include "daemon/service/unix_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/service/caller.h"
#include "tests/daemon/control/raw_client.h"
#include "tests/daemon/control/running_server.h"

namespace profd {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kSomebody = 4711;
constexpr gid_t kSomeGroup = 4712;
constexpr gid_t kPrivilegedGroup = 4713;

class UnixListenerTest : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::filesystem::path socket_ = directory_.path() / "run" / "profd.sock";
};

TEST_F(UnixListenerTest, MakesItsDirectoryAndASocketForEveryone) {
  const mode_t former = ::umask(0077);
  const auto listener = UnixListener::open(socket_, SOCK_STREAM);
  ::umask(former);
  ASSERT_TRUE(listener) << listener.error().message;
  struct stat info {};
  ASSERT_EQ(::stat(socket_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode, S_IFSOCK | 0666u);
  ASSERT_EQ(::stat(socket_.parent_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode, S_IFDIR | 0755u);
  const auto entries = std::filesystem::directory_iterator(socket_.parent_path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "only the socket";
}

TEST_F(UnixListenerTest, ASocketForAGroupHasItsModeAndItsGroup) {
  const auto listener =
      UnixListener::open(socket_, SOCK_STREAM, {.mode = 0660, .group = kSomeGroup});
  ASSERT_TRUE(listener) << listener.error().message;
  struct stat info {};
  ASSERT_EQ(::stat(socket_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode, S_IFSOCK | 0660u);
  EXPECT_EQ(info.st_gid, kSomeGroup);
  EXPECT_EQ(info.st_uid, ::geteuid());
}

TEST_F(UnixListenerTest, ASecondOneIsRefusedWithThePidOfTheFirst) {
  const auto first = UnixListener::open(socket_, SOCK_STREAM);
  ASSERT_TRUE(first);
  const auto second = UnixListener::open(socket_, SOCK_STREAM);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kBusy);
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(::getpid())));
  EXPECT_TRUE(std::filesystem::exists(socket_));
}

TEST_F(UnixListenerTest, AStaleSocketIsReplaced) {
  std::filesystem::create_directory(socket_.parent_path());
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(socket_.native(), address.sun_path);
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(socket_));
  const auto listener = UnixListener::open(socket_, SOCK_STREAM);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_NO_THROW(RawClient{socket_});
}

TEST_F(UnixListenerTest, AFileThatIsNoSocketIsLeftAlone) {
  std::filesystem::create_directory(socket_.parent_path());
  std::ofstream(socket_) << "precious";
  const auto listener = UnixListener::open(socket_, SOCK_STREAM);
  ASSERT_FALSE(listener);
  EXPECT_THAT(listener.error().message, HasSubstr("is not a socket"));
  EXPECT_EQ(std::filesystem::file_size(socket_), 8u);
}

TEST_F(UnixListenerTest, APathThatIsTooLongIsAnError) {
  const auto listener = UnixListener::open(directory_.path() / std::string(108, 'x'), SOCK_STREAM);
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(UnixListenerTest, RemovesOnlyItsOwnSocket) {
  {
    auto first = UnixListener::open(socket_, SOCK_STREAM);
    ASSERT_TRUE(first);
  }
  EXPECT_FALSE(std::filesystem::exists(socket_));
  {
    auto first = UnixListener::open(socket_, SOCK_STREAM);
    ASSERT_TRUE(first);
    std::filesystem::remove(socket_);
    std::ofstream(socket_) << "another's";
  }
  EXPECT_TRUE(std::filesystem::exists(socket_));
}

TEST_F(UnixListenerTest, MembersOfTheGroupArePrivileged) {
  struct Case {
    uid_t uid;
    gid_t gid;
    std::vector<gid_t> groups;
    bool privileged;
  };
  std::vector<gid_t> many(1000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<gid_t>(10000 + i);
  std::vector<gid_t> many_and_ours = many;
  many_and_ours.push_back(kPrivilegedGroup);
  const Case table[] = {
      {0, 0, {}, true},
      {kSomebody, kPrivilegedGroup, {}, true},
      {kSomebody, kSomeGroup, {1, kPrivilegedGroup}, true},
      {kSomebody, kSomeGroup, many_and_ours, true},
      {kSomebody, kSomeGroup, {}, false},
      {kSomebody, kSomeGroup, {0}, false},
      {kSomebody, 0, {}, false},
      {kSomebody, kSomeGroup, many, false},
      {4294967294, kSomeGroup, {}, false},
  };
  auto listener = UnixListener::open(socket_, SOCK_STREAM);
  ASSERT_TRUE(listener);
  const UniqueFd socket = listener->take_fd();
  for (const Case& c : table) {
    RawClient client;
    client.connect_as(socket_, c.uid, c.gid, c.groups);
    const UniqueFd accepted(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(accepted.valid());
    const auto caller = identify_caller(accepted.get(), kPrivilegedGroup);
    ASSERT_TRUE(caller);
    EXPECT_EQ(caller->uid, c.uid);
    EXPECT_EQ(caller->gid, c.gid);
    EXPECT_EQ(caller->privileged, c.privileged) << c.uid << " " << c.gid;
    EXPECT_EQ(identify_caller(accepted.get(), std::nullopt)->privileged, c.uid == 0);
  }
}

}  // namespace
}  // namespace profd
