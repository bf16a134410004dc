// Addresses within the page. They stand behind the #, so that the service needs no path for them.

export const jobLink = (job: string): string => `#/jobs/${job.split("/").map(encodeURIComponent).join("/")}`;
export const taskLink = (job: string, task: string): string => `#/tasks/${encodeURIComponent(job)}/${encodeURIComponent(task)}`;
export const decisionLink = (id: string): string => `#/decisions/${encodeURIComponent(id)}`;
export const clusterLink = (cluster: string): string => `#/clusters/${encodeURIComponent(cluster)}`;

/** Make a whole row lead where the link in it does; whoever marks text in it, or meets another link, goes nowhere. */
export const opens = (link: string) => ({
  class: "opens",
  onClick: (event: MouseEvent): void => {
    if (!(event.target as Element).closest("a, button, abbr") && getSelection()?.isCollapsed !== false) location.hash = link;
  },
});

export const jobOf = (decisionId: string): string => decisionId.slice(0, decisionId.lastIndexOf("@"));
