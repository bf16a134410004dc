// Light, dark, or as the system has it; and the colours that charts need as values.
import { signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";

const KEY = "surescale-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export const theme = signal<Theme>((localStorage.getItem(KEY) as Theme | null) ?? "auto");
/** Changes whenever colours do. */
export const isDark = signal(false);

function apply(): void {
  isDark.value = theme.value === "dark" || (theme.value === "auto" && system.matches);
  document.documentElement.dataset["theme"] = isDark.value ? "dark" : "light";
}

export function setTheme(chosen: Theme): void {
  theme.value = chosen;
  localStorage.setItem(KEY, chosen);
  apply();
}

system.addEventListener("change", apply);
apply();

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
