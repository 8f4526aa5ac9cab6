// Starts threads. Inline, so that the static programs, which have none, do not link it.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/base/result.h"

namespace atl {

// Starts a thread that blocks all signals, which belong to the caller's loop. `name`: at most 15
// characters. kResourceExhausted: the kernel allows no more threads (pids limit, RLIMIT_NPROC,
// memory); std::thread throws then, which would end the process. Any thread may call it.
inline Result<std::thread> StartThread(const char* name, std::function<void()> work) {
  // A new thread inherits the mask of its creator. Therefore signals are blocked here, before, and
  // not in the thread, so that none can arrive there in between.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ATOLL_CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
  Result<std::thread> thread = Fail(Code::kInternal, name);
  try {
    thread = std::thread(std::move(work));
    pthread_setname_np(thread->native_handle(), name);
  } catch (const std::system_error& error) {
    thread = Fail(Code::kResourceExhausted,
                  std::string("cannot start the thread '") + name + "': " + error.code().message() +
                      "; raise the limit of processes (pids.max, TasksMax, RLIMIT_NPROC)");
  }
  ATOLL_CHECK(pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
  return thread;
}

}  // namespace atl
