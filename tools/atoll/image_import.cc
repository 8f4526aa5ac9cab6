#include "tools/atoll/image_import.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/base/sys.h"
#include "tools/atoll/copy_tar.h"
#include "tools/atoll/interrupt.h"
#include "tools/atoll/json_text.h"
#include "tools/atoll/progress.h"
#include "tools/atoll/text.h"

namespace atl::cli {

Result<nlohmann::json> ImportImage(const Settings& settings, const std::string& file,
                                   const std::string& name) {
  ATOLL_ASSIGN(UniqueFd archive, sys::Open(file, O_RDONLY));
  struct stat status {};
  if (fstat(archive.get(), &status) != 0) return FailSys("fstat " + file);
  if (S_ISDIR(status.st_mode)) {
    if (faccessat(archive.get(), "index.json", R_OK, 0) != 0) {
      return Fail(Code::kInvalidArgument,
                  file + " is a directory without index.json: no OCI layout");
    }
    ATOLL_ASSIGN(archive, PackDirectory(file));
    if (fstat(archive.get(), &status) != 0) return FailSys("fstat the archive of " + file);
  }
  if (!S_ISREG(status.st_mode)) {
    return Fail(Code::kInvalidArgument,
                file + " is not a regular file; save the archive to one first");
  }
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  const auto size = static_cast<uint64_t>(status.st_size);
  Progress progress("importing " + (name.empty() ? file : name), size);
  http::Client::Call call;
  call.method = "POST";
  call.target = name.empty() ? "/images" : "/images?name=" + PercentEncode(name);
  call.headers.Set("Content-Type", "application/x-tar");
  call.body_fd = archive.get();
  call.body_size = size;
  call.on_progress = [&progress, size](uint64_t sent) {
    progress.Update(sent);
    if (sent == size) progress.Say("unpacking …");
  };
  ATOLL_ASSIGN(call.cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(const http::Response response, api.Send(std::move(call)));
  progress.Clear();
  ATOLL_ASSIGN(auto image, ObjectOf(response));
  if (settings.json) {
    std::puts(response.body.c_str());
  } else {
    std::printf("imported %s (%s, %s)\n", Printable(image.value("name", name)).c_str(),
                Printable(image.value("digest", "")).c_str(),
                HumanSize(image.value("sizeBytes", uint64_t{0})).c_str());
  }
  return image;
}

Result<nlohmann::json> GiveName(Api& api, const std::string& image, const std::string& name) {
  ATOLL_ASSIGN(const auto response, api.Send("POST", "/images?from=" + PercentEncode(image) +
                                                         "&name=" + PercentEncode(name)));
  return ObjectOf(response);
}

}  // namespace atl::cli
