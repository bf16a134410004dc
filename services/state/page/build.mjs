// Builds the page into built/: type-checked sources in, a few minified files out, and the hash of what they were made of.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";

const here = import.meta.dirname;
const out = join(here, "built");

// Tests compute the same from the sources alone: services/state/page/ needs no Node to be checked.
function sources() {
  const names = ["build.mjs", "documents.mjs", "package-lock.json", "package.json", "tsconfig.json", "words.json"];
  const files = names.map((name) => join(here, name));
  const walk = (folder) =>
    readdirSync(folder).forEach((name) => {
      const path = join(folder, name);
      if (statSync(path).isDirectory()) walk(path);
      else files.push(path);
    });
  walk(join(here, "src"));
  return files.map((path) => [relative(here, path).replaceAll("\\", "/"), path]).sort(([a], [b]) => (a < b ? -1 : 1));
}

function hash() {
  const sum = createHash("sha256");
  for (const [name, path] of sources()) {
    sum.update(`${name}\0`);
    sum.update(readFileSync(path));
    sum.update("\0");
  }
  return sum.digest("hex");
}

function licences(inputs) {
  const names = new Set();
  for (const path of inputs) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
    if (found) names.add(found[1]);
  }
  const parts = [...names].sort().map((name) => {
    const folder = join(here, "node_modules", name);
    const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    const text = file ? readFileSync(join(folder, file), "utf8").trim() : `Licence: ${about.license}`;
    return `${name} ${about.version} (${about.license})\n\n${text}\n`;
  });
  return `The page has parts of these packages.\n\n${parts.join(`\n${"-".repeat(80)}\n\n`)}`;
}

rmSync(out, { recursive: true, force: true });
mkdirSync(out);
const made = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx", layout: "src/parts/layout.worker.ts", style: "src/style.css" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) copyFileSync(join(here, "src", name), join(out, name));
writeFileSync(join(out, "LICENCES.txt"), licences(Object.keys(made.metafile.inputs)));
writeFileSync(join(out, "sources.sha256"), `${hash()}\n`);
const bytes = readdirSync(out).reduce((sum, name) => sum + statSync(join(out, name)).size, 0);
console.log(`${readdirSync(out).length} files, ${Math.round(bytes / 1024)} KiB`);
