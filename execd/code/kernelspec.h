// Which kernel runs a language: the kernelspecs of the image, as Jupyter finds them.
#pragma once

#include <time.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "execd/core/environment.h"
#include "execd/core/users.h"
#include "runtime/base/result.h"

namespace atl::execd {

struct Kernelspec {
  std::string name;       // of its directory
  std::string directory;  // {resource_dir}
  std::string language;
  std::vector<std::string> argv;
  Variables env;
  bool interrupt_by_message = false;  // interrupt_mode is "message"; else SIGINT
  bool knows_ipc = false;             // its kernel knows Unix sockets; else TCP
};

// A kernel.json. kInvalidArgument: no JSON object, or one without argv and language.
Result<Kernelspec> ParseKernelspec(std::string text);

// Where kernelspecs are looked for, in this order: JUPYTER_PATH; the user's data directory
// (JUPYTER_DATA_DIR, or XDG_DATA_HOME/jupyter, or ~/.local/share/jupyter); share/jupyter beside
// each bin of PATH, where virtual environments have theirs; /usr/local/share and /usr/share.
std::vector<std::string> KernelspecPaths(const Environment& env, std::string_view home);

// The kernel for `language`, compared without case: the one of that name if there is one, else the
// first by place and name. Files are read as `user`, at most 256 of them and 64 KiB of each. If
// there is none, kNotFound says which languages there are.
Result<Kernelspec> FindKernelspec(std::string_view language, const Environment& env,
                                  std::string_view home, const Identity& user);

// Whether the image's entrypoint may yet bring kernels: it has set-up for a Jupyter server
// (JUPYTER_HOST), and began `started_at` less than a minute ago.
bool KernelsMayCome(const Environment& env, time_t started_at);

}  // namespace atl::execd
