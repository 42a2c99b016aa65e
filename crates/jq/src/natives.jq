def IN(xs): any(xs == .; .);
def IN(xs; ys): any(xs == ys; .);
def INDEX(xs; f): reduce xs as $x ({}; .[$x | f | tostring] = $x);
def INDEX(f): INDEX(.[]; f);
def pow(x; y): x | pow_of(y);
def leaf_paths: paths(scalars);
def replace_text($from; $to): split($from) | join($to);
def @html: tostring | replace_text("&"; "&amp;") | replace_text("<"; "&lt;") | replace_text(">"; "&gt;")
  | replace_text("'"; "&#39;") | replace_text("\""; "&quot;");
def @csv: [.[] | if isstring then "\"" + replace_text("\""; "\"\"") + "\"" elif . == null then "" else tostring end]
  | join(",");
def @tsv: [.[] | if isstring then replace_text("\\"; "\\\\") | replace_text("\t"; "\\t") | replace_text("\n"; "\\n")
  | replace_text("\r"; "\\r") elif . == null then "" else tostring end] | join("\t");
