/** Whether an SPDX expression can be met by the licences that are allowed. */
export function isAllowed(expression: string): boolean;
/** Text for the packages of these files, relative to `root`. */
export function licenceList(root: string, files: string[]): string;
