// The one thread beside the io thread: it encodes and stores. It gets moved values and gives moved
// values back, so nothing is shared and nothing is locked.

#pragma once

#include <type_traits>
#include <utility>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace profd {

class Worker {
 public:
  Worker() : pool_(1) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Waits for the work at hand.
  ~Worker() { pool_.join(); }

  // Runs `work` (a move-only callable without arguments, which must not throw) on the worker's
  // thread, after what was given to it before. Awaited by a coroutine of the io thread, which goes
  // on there with what `work` returned.
  template <class Work>
  boost::asio::awaitable<std::invoke_result_t<Work>> run(Work work) {
    using Value = std::invoke_result_t<Work>;
    auto begin = [this](auto handler, Work todo) {
      this->post_work(std::move(handler), std::move(todo));
    };
    return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(Value)>(
        std::move(begin), boost::asio::use_awaitable, std::move(work));
  }

 private:
  template <class Handler, class Work>
  void post_work(Handler handler, Work work) {
    auto io = boost::asio::prefer(boost::asio::get_associated_executor(handler),
                                  boost::asio::execution::outstanding_work.tracked);
    boost::asio::post(pool_, [io, handler = std::move(handler), work = std::move(work)]() mutable {
      boost::asio::post(io, [handler = std::move(handler), value = work()]() mutable {
        std::move(handler)(std::move(value));
      });
    });
  }

  boost::asio::thread_pool pool_;
};

}  // namespace profd
