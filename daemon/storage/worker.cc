#include "daemon/storage/worker.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <exception>
#include <string>

#include <boost/asio/async_result.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "collectors/host/idle_thread.h"

namespace profd {

namespace asio = boost::asio;

Worker::Worker(const char* name, int niceness) : thread_(std::make_unique<asio::thread_pool>(1)) {
  asio::post(*thread_, [name, niceness] {
    ::prctl(PR_SET_NAME, name);
    lower_priority_of_worker();
    if (niceness != 0) (void)::setpriority(PRIO_PROCESS, 0, niceness);  // of this thread alone
  });
}

Worker::~Worker() { thread_->join(); }

Error Worker::error_of(const std::exception& problem) {
  return fail(ErrorCode::kInternal, std::string("could not finish a job: ") + problem.what());
}

asio::awaitable<void> Worker::run_on_thread(const std::function<void()>& job) {
  // Keeps the io context from running dry meanwhile.
  const auto io =
      asio::prefer(co_await asio::this_coro::executor, asio::execution::outstanding_work.tracked);
  auto begin = [this, &job, io](auto handler) {
    ++jobs_;
    asio::post(*thread_, [this, &job, io, handler = std::move(handler)]() mutable {
      job();
      asio::post(io, std::move(handler));
      // Also where the caller is about to ask for another job: the thread does not wait by time.
      if (--jobs_ == 0) return_memory_of_thread();
    });
  };
  auto operation = asio::async_initiate<const asio::use_awaitable_t<>, void()>(std::move(begin),
                                                                               asio::use_awaitable);
  co_await std::move(operation);
}

}  // namespace profd
