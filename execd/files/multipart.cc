#include "execd/files/multipart.h"

#include <algorithm>

#include "runtime/http/ascii.h"

namespace atl::execd {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Finds the value of `name` among "; name=value" parameters and removes quotes. Returns false if it
// is absent.
bool Parameter(std::string_view header, std::string_view name, std::string* value) {
  size_t at = header.find(';');
  while (at != std::string_view::npos && at < header.size()) {
    ++at;
    const size_t equals = header.find('=', at);
    if (equals == std::string_view::npos) return false;
    const std::string_view key = Trim(header.substr(at, equals - at));
    std::string out;
    size_t i = equals + 1;
    while (i < header.size() && header[i] == ' ') ++i;
    if (i < header.size() && header[i] == '"') {
      for (++i; i < header.size() && header[i] != '"'; ++i) {
        // Only quotes are escaped in practice; a backslash of a Windows path is literal.
        if (header[i] == '\\' && i + 1 < header.size() && header[i + 1] == '"') ++i;
        out.push_back(header[i]);
      }
      i = std::min(header.find(';', i), header.size());
    } else {
      const size_t end = std::min(header.find(';', i), header.size());
      out = Trim(header.substr(i, end - i));
      i = end;
    }
    if (http::EqualNoCase(key, name)) {
      *value = std::move(out);
      return true;
    }
    at = i;
  }
  return false;
}

}  // namespace

Result<std::string> MultipartBoundary(std::string_view content_type) {
  const std::string_view type = Trim(content_type.substr(0, content_type.find(';')));
  std::string boundary;
  if (!http::EqualNoCase(type, "multipart/form-data") ||
      !Parameter(content_type, "boundary", &boundary)) {
    return Fail(Code::kInvalidArgument,
                "Content-Type: must be multipart/form-data with a boundary");
  }
  if (boundary.empty() || boundary.size() > 200) {
    return Fail(Code::kInvalidArgument, "Content-Type: the boundary must have 1 to 200 characters");
  }
  return boundary;
}

MultipartParser::MultipartParser(std::string boundary, Sink* sink)
    : delimiter_("\r\n--" + std::move(boundary)),
      sink_(*sink),
      // The first boundary needs no line end before it.
      buffer_("\r\n") {}

// Returns how many bytes at the end may be the start of a delimiter.
size_t MultipartParser::MayBeDelimiter(std::string_view bytes) const {
  const size_t longest = std::min(bytes.size(), delimiter_.size() - 1);
  for (size_t at = bytes.find('\r', bytes.size() - longest); at != std::string_view::npos;
       at = bytes.find('\r', at + 1)) {
    if (delimiter_.compare(0, bytes.size() - at, bytes.substr(at)) == 0) return bytes.size() - at;
  }
  return 0;
}

Status MultipartParser::Feed(std::string_view bytes) {
  if (state_ == State::kData && buffer_.empty() &&
      bytes.find(delimiter_) == std::string_view::npos) {
    // The middle of a large file is passed on without a copy.
    const size_t end = bytes.size() - MayBeDelimiter(bytes);
    buffer_.assign(bytes.substr(end));
    return end > 0 ? sink_.OnData(bytes.substr(0, end)) : Status();
  }
  buffer_.append(bytes);
  bool progress = true;
  while (progress && state_ != State::kEnd) {
    progress = false;
    ATOLL_TRY(Step(&progress));
  }
  if (state_ == State::kEnd) buffer_.clear();  // the epilogue
  return {};
}

Status MultipartParser::Step(bool* progress) {
  switch (state_) {
    case State::kPreamble:
    case State::kData: {
      const size_t found = buffer_.find(delimiter_);
      const bool data = state_ == State::kData;
      const size_t end =
          found != std::string::npos ? found : buffer_.size() - MayBeDelimiter(buffer_);
      if (data && end > 0) ATOLL_TRY(sink_.OnData(std::string_view(buffer_).substr(0, end)));
      buffer_.erase(0, found != std::string::npos ? found + delimiter_.size() : end);
      if (found == std::string::npos) return {};
      state_ = State::kAfterBoundary;
      *progress = true;
      return data ? sink_.OnPartEnd() : Status();
    }
    case State::kAfterBoundary: {
      if (buffer_.size() < 2) return {};
      if (buffer_.compare(0, 2, "--") == 0) {
        state_ = State::kEnd;
        return {};
      }
      // A boundary may be followed by blanks before its line end (RFC 2046).
      const size_t line_end = buffer_.find("\r\n");
      if (line_end == std::string::npos) {
        return buffer_.size() > 256 ? Fail(Code::kInvalidArgument, "multipart: bad boundary line")
                                    : Status();
      }
      if (!Trim(std::string_view(buffer_).substr(0, line_end)).empty()) {
        return Fail(Code::kInvalidArgument, "multipart: bad boundary line");
      }
      // The line end is kept, so that the same search finds an empty head.
      buffer_.erase(0, line_end);
      state_ = State::kHead;
      *progress = true;
      return {};
    }
    case State::kHead: {
      const size_t end = buffer_.find("\r\n\r\n");
      if (end == std::string::npos) {
        return buffer_.size() > kMaxPartHead
                   ? Fail(Code::kInvalidArgument, "multipart: head of a part is too large")
                   : Status();
      }
      if (end > kMaxPartHead) {
        return Fail(Code::kInvalidArgument, "multipart: head of a part is too large");
      }
      ATOLL_TRY(ParseHead(std::string_view(buffer_).substr(0, end)));
      buffer_.erase(0, end + 4);
      state_ = State::kData;
      *progress = true;
      return {};
    }
    case State::kEnd:
      break;
  }
  return {};
}

Status MultipartParser::ParseHead(std::string_view head) {
  std::string name, filename;
  bool has_filename = false;
  while (!head.empty()) {
    const size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    head = end == std::string_view::npos ? std::string_view() : head.substr(end + 2);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    if (!http::EqualNoCase(Trim(line.substr(0, colon)), "content-disposition")) continue;
    const std::string_view value = Trim(line.substr(colon + 1));
    Parameter(value, "name", &name);
    has_filename =
        Parameter(value, "filename", &filename) || Parameter(value, "filename*", &filename);
  }
  return sink_.OnPart(name, has_filename);
}

}  // namespace atl::execd
