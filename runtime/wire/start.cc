#include "runtime/wire/start.h"

#include "runtime/wire/bytes.h"

namespace atl::wire {
namespace {

constexpr uint32_t kMaxStrings = 65536;
constexpr size_t kMaxReportText = 4096;

void PutStrings(Writer& writer, const std::vector<std::string>& strings) {
  writer.Each(strings, [&](const std::string& s) { writer.Text(s); });
}

std::vector<std::string> GetStrings(Reader& reader) {
  std::vector<std::string> strings;
  reader.Each(kMaxStrings, [&] { strings.push_back(reader.Text()); });
  return strings;
}

}  // namespace

std::string StartMessage::Encode() const {
  Writer writer;
  writer.Text(sandbox_id);
  PutStrings(writer, argv);
  PutStrings(writer, env);
  writer.Text(cwd);
  writer.Text(user);
  writer.Text(access_token);
  return writer.Take();
}

Result<StartMessage> DecodeStartMessage(std::string_view bytes) {
  Reader reader(bytes);
  StartMessage message;
  message.sandbox_id = reader.Text();
  message.argv = GetStrings(reader);
  message.env = GetStrings(reader);
  message.cwd = reader.Text();
  message.user = reader.Text();
  message.access_token = reader.Text();
  if (!reader.complete()) return Fail(Code::kInvalidArgument, "start message: malformed");
  return message;
}

std::string StartReport::Encode() const {
  Writer writer;
  writer.U8(static_cast<uint8_t>(kind));
  writer.Text(message);
  return writer.Take();
}

Result<StartReport> DecodeStartReport(std::string_view bytes) {
  Reader reader(bytes);
  StartReport report;
  report.kind = static_cast<StartReport::Kind>(reader.U8());
  report.message = reader.Text();
  const bool known =
      report.kind == StartReport::Kind::kStarted || report.kind == StartReport::Kind::kFailed;
  if (!reader.complete() || !known || report.message.size() > kMaxReportText) {
    return Fail(Code::kInvalidArgument, "start report: malformed");
  }
  return report;
}

}  // namespace atl::wire
