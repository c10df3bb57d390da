// What the servers of profctl have in common where descriptors or memory are short.

#include "ctl/listen/tcp_listener.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <thread>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/system_error.hpp>
#include <gtest/gtest.h>

#include "formats/base/unique_fd.h"
#include "tests/ctl/web/web_client.h"

namespace profd {
namespace {

using boost::asio::ip::tcp;

tcp::endpoint free_port() { return {boost::asio::ip::address_v4::loopback(), 0}; }

boost::asio::awaitable<void> close_connection(tcp::socket socket) {
  socket.close();
  co_return;
}

TEST(TcpListenerTest, AConnectionThatCanNotBeServedEndsAlone) {
  TcpListener listener(free_port(), 1);
  const UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  std::atomic<int> connections = 0;
  const auto serve = [&connections](tcp::socket socket) {
    if (++connections == 1) throw std::bad_alloc();
    return close_connection(std::move(socket));
  };
  std::thread thread([&] { listener.run(stop.get(), serve); });
  for (int i = 0; i < 2; ++i) {
    const UniqueFd socket = test::connect_to_port(listener.address().port());
    const timeval guard{.tv_sec = 30, .tv_usec = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof(guard));
    EXPECT_EQ(test::read_to_end(socket.get()), "");
  }
  EXPECT_EQ(connections.load(), 2) << "the first one counts no more";
  ::eventfd_write(stop.get(), 1);
  thread.join();
}

TEST(TcpListenerTest, WithoutAFreeDescriptorItThrows) {
  TcpListener listener(free_port(), 1);
  const UniqueFd stop(::eventfd(1, EFD_CLOEXEC));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  int error = 0;
  try {
    listener.run(stop.get(), close_connection);
  } catch (const boost::system::system_error& failure) {
    error = failure.code().value();
  }
  ::setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(error, EMFILE);
}

}  // namespace
}  // namespace profd
