// Reports that no small test can make with real processes, made from a real one, so that they have its members.

/** Many instances with many servers: one in ten fails, some run, and some of these are shared. */
export function crowd(report, instanceCount, serverCount) {
  const instance = report.instances.find((instance) => instance.groups.some((group) => group.state === "connected"));
  const connected = instance.groups.find((group) => group.state === "connected");
  const failed = instance.groups.find((group) => group.state === "failed");
  const clients = ["claude", "code", "cursor", "goose", "codex"];
  const instances = Array.from({ length: instanceCount }, (_, at) => ({
    ...instance,
    pid: 1000 + at,
    client: clients[at % clients.length],
    cwd: `/home/kim/work/project-${at + 1}`,
    isThis: at === 0,
    groups: Array.from({ length: serverCount }, (_, server) => {
      const group = `${["search", "tickets", "database", "browser", "files"][server % 5]}-${server + 1}`;
      if (server % 10 === 3) return { ...failed, group };
      if ((at * 7 + server * 3) % 11 > 2) return { ...connected, group, state: "discovered", pid: null, shared: null, calls: 0, errors: 0, p50Ms: null, p95Ms: null, inFlight: 0 };
      const shared = server % 5 === 0;
      const pid = shared ? 5000 + server : 6000 + at * 100 + server;
      return { ...connected, group, pid, shared, calls: (at + 1) * (server + 7) };
    }),
  }));
  return { ...report, instances };
}

/** The same report, in which every text is markup and every address is a script. */
export function hostile(report) {
  const markup = `<img src=x onerror="pwned=1"></script><script>pwned=1</script>\u202e<!--`;
  const kept = new Set(["state", "mode", "status", "share"]);
  const change = (value, key) => {
    if (Array.isArray(value)) return value.map((item) => change(item, key));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, change(item, key)]));
    }
    return typeof value === "string" && !kept.has(key) ? `${markup}${value}` : value;
  };
  const changed = change(report, "");
  for (const group of changed.instances.flatMap((instance) => instance.groups)) {
    group.loginUrl = "javascript:pwned=1";
    group.changedTools = [{ tool: markup, changes: [markup], refused: true }];
  }
  return changed;
}

/** The report with a login whose page is open at this address. */
export function withLogin(report, url) {
  const changed = structuredClone(report);
  const failed = changed.instances.flatMap((instance) => instance.groups).find((group) => group.state === "failed");
  Object.assign(failed, { needsLogin: true, loginUrl: url });
  return changed;
}
